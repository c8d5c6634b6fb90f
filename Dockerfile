# The image of kubestow: an interpreter, one virtual environment and the libraries they load. It has no shell,
# no pip and no package manager, runs as any numeric user, and `kubestow run` writes to no file.
#
# Everything downloaded is pinned: the base image by its digest, packages by the hashes in the lock files. The base
# image has its full name, because podman and buildah ask for the registry of a short one, or refuse it.
# tests/unit/repository/test_image.py runs the steps without a container engine and the result in a chroot, so
# keep absolute paths to those declared there: /source, /wheels, /builder, /image, /opt/kubestow.

ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /builder \
    && /builder/bin/python -m pip install --require-hashes --requirement requirements-build.lock
# The environment gets no pip of its own: nothing can be installed into a running container.
RUN python -m venv --without-pip /opt/kubestow \
    && python -m pip --python /opt/kubestow/bin/python install --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY config ./config
COPY kubestow ./kubestow
COPY plugins ./plugins
COPY scheduler ./scheduler
COPY simulator ./simulator
RUN /builder/bin/python -m pip wheel --no-build-isolation --no-deps --wheel-dir /wheels .
RUN python -m pip --python /opt/kubestow/bin/python install --no-deps /wheels/*.whl
# The name and the paths by which existing Deployments start a scheduler; `kubestow` reads them from its own name.
RUN ln -s kubestow /opt/kubestow/bin/kube-scheduler \
    && for folder in /image/bin /image/usr/local/bin; do \
         mkdir -p "$folder" && ln -s /opt/kubestow/bin/kubestow "$folder/kube-scheduler"; done
# The interpreter, without the modules that install packages, draw windows or test the interpreter itself, and
# kubestow without its simulator: nothing of it is needed to schedule.
RUN interpreter="$(python -c 'import os, sys; print(os.path.realpath(sys.executable))')" \
    && library="$(python -c 'import os; print(os.path.dirname(os.path.realpath(os.__file__)))')" \
    && mkdir -p /image/tmp /image/etc /image/var/lib/dpkg/status.d \
    && chmod 1777 /image/tmp \
    && for unused in site-packages ensurepip idlelib lib2to3 pydoc_data test tkinter turtledemo 'config-3.*' \
         'lib-dynload/_curses*' 'lib-dynload/_dbm*' 'lib-dynload/_gdbm*' 'lib-dynload/_sqlite3*' \
         'lib-dynload/_test*' 'lib-dynload/_tkinter*' 'lib-dynload/readline*'; do \
         echo "$library/$unused"; done > /wheels/unused \
    && find /opt/kubestow/bin /opt/kubestow/include /opt/kubestow/share -type f -not -name kubestow -print >> /wheels/unused \
    && echo /opt/kubestow/lib/python3.*/site-packages/simulator >> /wheels/unused \
    && ln -sf "$interpreter" /opt/kubestow/bin/python \
    && tar --create --absolute-names --exclude-from /wheels/unused "$library" "$interpreter" /opt/kubestow \
      | tar --extract --directory /image
# The shared libraries that those load, and the authorities that Debian trusts. /var/lib/dpkg/status.d names the
# Debian packages they came from: image scanners look there.
RUN find /image -type f \( -name '*.so' -o -name '*.so.*' -o -name 'python3.[0-9]*' \) -exec ldd '{}' + \
      | grep -o '/[^ :]*\.so[^ :]*' | grep -v ^/image | grep -v /opt/kubestow | sort -u > /image/libraries \
    && xargs cp --dereference --parents --target-directory /image < /image/libraries \
    && sed 's,.*/,*/,' /image/libraries | xargs dpkg --search 2>/dev/null \
      | cut -d: -f1 | sort -u > /image/packages \
    && for package in $(cat /image/packages) ca-certificates; do \
         dpkg --status "$package" > "/image/var/lib/dpkg/status.d/$package" 2>/dev/null || true; done \
    && rm /image/libraries /image/packages \
    && cp --recursive --dereference --parents /etc/ssl/certs/ca-certificates.crt /image

FROM scratch
LABEL org.opencontainers.image.title="kubestow" \
      org.opencontainers.image.description="A secondary Kubernetes scheduler" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image /
# Bytecode was compiled at installation; the root file system may be read-only. PYTHONSAFEPATH keeps
# a foreign `config` or `plugins` folder in the working directory from being imported.
ENV PATH=/opt/kubestow/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
# Numeric, so that runAsNonRoot can be checked.
USER 65532:65532
WORKDIR /
EXPOSE 10259
ENTRYPOINT ["kubestow", "run"]

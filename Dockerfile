# The image of kubestow: Python, one virtual environment, no compiler, no package manager's caches.
#
# It runs as a numeric user, writes nothing outside /tmp, and needs no shell: both commands are started
# by their interpreter line. tests/unit/repository/test_image.py carries the steps out without a
# container engine, so keep absolute paths to the three declared there: /source, /wheels, /opt/kubestow.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
COPY pyproject.toml requirements-dev.lock README.md LICENSE ./
COPY config ./config
COPY plugins ./plugins
COPY scheduler ./scheduler
COPY simulator ./simulator
RUN python -m pip wheel --no-deps --wheel-dir /wheels .
# The lock pins what the tests ran with; only what the wheel asks for is taken from it. The environment
# gets no pip: nothing can be installed into a running container.
RUN python -m venv --without-pip /opt/kubestow \
    && python -m pip --python /opt/kubestow/bin/python install --constraint requirements-dev.lock /wheels/*.whl
# The name by which existing Deployments start a scheduler; `kubestow` reads it from its own name.
RUN ln -s kubestow /opt/kubestow/bin/kube-scheduler

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="kubestow" \
      org.opencontainers.image.description="A secondary Kubernetes scheduler" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kubestow /opt/kubestow
# Bytecode was compiled at installation; the root file system may be read-only. PYTHONSAFEPATH keeps
# a foreign `config` or `plugins` folder in the working directory from being imported.
ENV PATH=/opt/kubestow/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
# Numeric, so that runAsNonRoot can be checked.
USER 65532:65532
WORKDIR /
EXPOSE 10259
ENTRYPOINT ["kubestow", "run"]

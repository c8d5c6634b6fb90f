module kubestow.test/thirdparty/dashboard

go 1.24.0

tool kubestow.test/thirdparty/dashboard

require github.com/grafana/grafana-foundation-sdk/go v0.0.22

{{/* The objects of the chart are those of manifests/ with the values over them: one source for Helm and kustomize. */}}

{{/* Labels of every object: those that the kustomize base adds, and Helm's. */}}
{{- define "kubestow.labels" -}}
app.kubernetes.io/name: kubestow
app.kubernetes.io/component: scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Image by digest, or by tag. */}}
{{- define "kubestow.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The KubeSchedulerConfiguration: that of the base, the names of this release, the values. */}}
{{- define "kubestow.config" -}}
{{- $base := fromYaml (index (fromYaml (.Files.Get "manifests/config.yaml")).data "config.yaml") -}}
{{- $_ := set $base.leaderElection "resourceName" .Values.name -}}
{{- $_ := set $base.leaderElection "resourceNamespace" .Release.Namespace -}}
{{- if .Values.tracing.enabled -}}
{{- $tracing := dict "samplingRatePerMillion" (int .Values.tracing.samplingRatePerMillion) -}}
{{- with .Values.tracing.endpoint -}}
{{- $_ := set $tracing "endpoint" . -}}
{{- end -}}
{{- $_ := set $base "kubestow" (merge (dict "tracing" $tracing) ($base.kubestow | default dict)) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $base (deepCopy .Values.config)) -}}
{{- end }}

{{/*
The port of the collector of traces; empty without tracing. Without an endpoint it is that of the variables in extraEnv,
or, where they take it from elsewhere, that of OTLP over HTTP.
*/}}
{{- define "kubestow.tracingPort" -}}
{{- if .Values.tracing.enabled -}}
{{- $variables := dict -}}
{{- range .Values.extraEnv -}}
{{- $_ := set $variables .name .value -}}
{{- end -}}
{{- $traces := get $variables "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" -}}
{{- $endpoint := coalesce .Values.tracing.endpoint $traces (get $variables "OTEL_EXPORTER_OTLP_ENDPOINT") "http://:4318" -}}
{{- $address := regexReplaceAll "\\[[^]]*\\]" $endpoint "ipv6" -}}
{{- $port := regexFind "[0-9]+$" (regexFind "^([a-z]+://)?[^/]*:[0-9]+" $address) -}}
{{- $port | default (ternary "443" "80" (hasPrefix "https:" $endpoint)) -}}
{{- end -}}
{{- end }}

{{/*
One object of the base as this release has it. Arguments: `root` the root context, `object` as a map, and `labels` that
are added, if any. A namespace but kube-system is replaced by that of the release. Names change from kubestow to .Values.name.
*/}}
{{- define "kubestow.object" -}}
{{- $root := .root -}}
{{- $object := .object -}}
{{- $name := $root.Values.name -}}
{{- $labels := mergeOverwrite dict (default dict $object.metadata.labels) (default dict .labels) -}}
{{- $_ := set $object.metadata "labels" (mergeOverwrite $labels (fromYaml (include "kubestow.labels" $root))) -}}
{{- $_ := set $object.metadata "name" ($object.metadata.name | replace "kubestow-system" $root.Release.Namespace) -}}
{{- if not (hasSuffix ".kubestow.io" $object.metadata.name) -}}
{{- $_ := set $object.metadata "name" ($object.metadata.name | replace "kubestow" $name) -}}
{{- end -}}
{{- if and $object.metadata.namespace (ne $object.metadata.namespace "kube-system") -}}
{{- $_ := set $object.metadata "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- with $object.roleRef -}}
{{- $_ := set . "name" (.name | replace "kubestow" $name) -}}
{{- end -}}
{{- range $object.subjects -}}
{{- $_ := set . "name" $name -}}
{{- $_ := set . "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- toYaml $object -}}
{{- end }}

{{/*
All objects of the files that match. Arguments: `root` the root context, `files` a glob below manifests/components,
`labels` that are added, if any, and `replace`, a map of texts.
*/}}
{{- define "kubestow.component" -}}
{{- $root := .root -}}
{{- $added := .labels -}}
{{- $replace := .replace -}}
{{- $files := $root.Files.Glob (printf "manifests/components/%s" .files) -}}
{{- if not $files -}}
{{- fail (printf "the chart is incomplete: no manifests/components/%s; use a released chart, or a clone with symbolic links" .files) -}}
{{- end -}}
{{- $account := printf "system:serviceaccount:%s:%s" $root.Release.Namespace $root.Values.name -}}
{{- $profiles := list -}}
{{- range (fromYaml (include "kubestow.config" $root)).profiles -}}
{{- $profiles = append $profiles (.schedulerName | quote) -}}
{{- end -}}
{{- $listed := printf "object.spec.schedulerName in [%s]" (join ", " $profiles | replace "\"" "'") -}}
{{- range $path, $_ := $files -}}
{{- range splitList "\n---\n" ($root.Files.Get $path) }}
{{- $text := . | replace "system:serviceaccount:kubestow-system:kubestow" $account }}
{{- $text = $text | replace "object.spec.schedulerName in ['kubestow']" $listed }}
{{- range $old, $new := $replace }}
{{- $text = $text | replace $old $new }}
{{- end }}
---
{{ include "kubestow.object" (dict "root" $root "object" (fromYaml $text) "labels" $added) }}
{{- end }}
{{- end }}
{{- end }}

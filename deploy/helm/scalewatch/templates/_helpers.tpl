{{- define "scalewatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "scalewatch.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "scalewatch.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "scalewatch.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "scalewatch.selector" -}}
app.kubernetes.io/name: {{ include "scalewatch.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "scalewatch.labels" -}}
{{ include "scalewatch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "scalewatch.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "scalewatch.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* What the chart refuses: a server open to the pod network by oversight. */ -}}
{{- define "scalewatch.check" -}}
{{- if and (not .Values.tls.existingSecret) (not .Values.insecure) -}}
{{- fail "tls.existingSecret is empty: name a secret with tls.crt and tls.key, or set insecure=true" -}}
{{- end -}}
{{- if and (not .Values.auth.existingSecret) (not .Values.tls.clientCa) (not .Values.anonymous) -}}
{{- fail "auth.existingSecret is empty: name a secret with a file of tokens, set tls.clientCa, or set anonymous=true" -}}
{{- end -}}
{{- if and .Values.tls.clientCa (not .Values.tls.existingSecret) -}}
{{- fail "tls.clientCa needs tls.existingSecret, whose ca.crt it is" -}}
{{- end -}}
{{- if gt (int .Values.fleet.replicas) 1 -}}
{{- if not .Values.clickhouse.hosts -}}
{{- fail "fleet.replicas is more than one: clickhouse.hosts must name the history that the servers share" -}}
{{- end -}}
{{- if and .Values.auth.existingSecret (not .Values.fleet.tokenSecret.name) -}}
{{- fail "fleet.tokenSecret is empty: name a secret with a token that the servers show each other" -}}
{{- end -}}
{{- if hasKey .Values.config "fleet" -}}
{{- range $key := list "instances" "self" "ca" "token_file" -}}
{{- if hasKey $.Values.config.fleet $key -}}
{{- fail (printf "config.fleet.%s: the chart sets this key itself" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key := list "data_dir" "tls" "auth" -}}
{{- if hasKey $.Values.config $key -}}
{{- fail (printf "config.%s: the chart sets this key itself" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Single keys of secrets that are mounted: volume: {name, key}. */ -}}
{{- define "scalewatch.keys" -}}
{{- $keys := dict -}}
{{- if and .Values.clickhouse.hosts .Values.clickhouse.passwordSecret.name -}}{{- $_ := set $keys "clickhouse-password" .Values.clickhouse.passwordSecret -}}{{- end -}}
{{- if and .Values.clickhouse.hosts .Values.clickhouse.caSecret.name -}}{{- $_ := set $keys "clickhouse-ca" .Values.clickhouse.caSecret -}}{{- end -}}
{{- if and (gt (int .Values.fleet.replicas) 1) .Values.fleet.tokenSecret.name -}}{{- $_ := set $keys "fleet-token" .Values.fleet.tokenSecret -}}{{- end -}}
{{- toJson $keys -}}
{{- end -}}

{{- /* scalewatchd.yaml: what the chart sets goes over config. */ -}}
{{- define "scalewatch.config" -}}
{{- $listen := dict "grpc" "0.0.0.0:7462" "http" "0.0.0.0:9464" -}}
{{- if .Values.insecure -}}{{- $_ := set $listen "insecure" true -}}{{- end -}}
{{- if .Values.anonymous -}}{{- $_ := set $listen "anonymous" true -}}{{- end -}}
{{- $own := dict "data_dir" "/var/lib/scalewatch" "listen" $listen -}}
{{- if .Values.tls.existingSecret -}}
{{- $tls := dict "certificate" "/run/secrets/scalewatch/tls/tls.crt" "key" "/run/secrets/scalewatch/tls/tls.key" -}}
{{- if .Values.tls.clientCa -}}{{- $_ := set $tls "client_ca" "/run/secrets/scalewatch/tls/ca.crt" -}}{{- end -}}
{{- $_ := set $own "tls" $tls -}}
{{- end -}}
{{- if .Values.auth.existingSecret -}}
{{- $_ := set $own "auth" (dict "tokens_file" (printf "/run/secrets/scalewatch/auth/%s" .Values.auth.key)) -}}
{{- end -}}
{{- with .Values.clickhouse -}}
{{- if .hosts -}}
{{- $shared := dict "hosts" (join "," .hosts) "database" .database "user" .user "layout" .layout "cluster" .cluster "required" .required -}}
{{- if .passwordSecret.name -}}{{- $_ := set $shared "password_file" (printf "/run/secrets/scalewatch/clickhouse-password/%s" .passwordSecret.key) -}}{{- end -}}
{{- if .caSecret.name -}}{{- $_ := set $shared "ca_file" (printf "/run/secrets/scalewatch/clickhouse-ca/%s" .caSecret.key) -}}{{- end -}}
{{- $_ := set $own "history" (dict "clickhouse" $shared) -}}
{{- end -}}
{{- end -}}
{{- if gt (int .Values.fleet.replicas) 1 -}}
{{- $name := include "scalewatch.fullname" . -}}
{{- $all := list -}}
{{- range $i := until (int .Values.fleet.replicas) -}}
{{- $all = append $all (printf "%s-%d=%s-%d.%s-headless.%s.svc:7462" $name $i $name $i $name $.Release.Namespace) -}}
{{- end -}}
{{- $fleet := dict "instances" (join ", " $all) -}}
{{- if .Values.tls.existingSecret -}}{{- $_ := set $fleet "ca" (printf "/run/secrets/scalewatch/tls/%s" .Values.fleet.caKey) -}}{{- end -}}
{{- if .Values.fleet.tokenSecret.name -}}{{- $_ := set $fleet "token_file" (printf "/run/secrets/scalewatch/fleet-token/%s" .Values.fleet.tokenSecret.key) -}}{{- end -}}
{{- $_ := set $own "fleet" $fleet -}}
{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $own) -}}
{{- end -}}

{{- /* Health without a certificate or token: with clients' certificates asked for only the port can be tried. */ -}}
{{- define "scalewatch.probe" -}}
{{- if .root.Values.tls.clientCa -}}
tcpSocket: {port: http}
{{- else -}}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ ternary "HTTPS" "HTTP" (ne .root.Values.tls.existingSecret "") }}
{{- end -}}
{{- end -}}

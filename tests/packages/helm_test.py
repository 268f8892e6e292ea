"""deploy/helm rendered by helm itself in the ways that people will use it: the objects against Kubernetes' schemas, the configuration
against what scalewatchd has keys for, and what must be refused is. Needs helm (tests/run packages builds it where Go is) and, for the
schemas, kubernetes-validate from PyPI; without helm the script skips."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/scalewatch"
TOOLS = ROOT / "build/tools/packages/bin"
HELM = shutil.which("helm", path=f"{TOOLS}:{os.environ['PATH']}")
VALIDATE = TOOLS / "kubernetes-validate"

CLUSTER = ["--kube-version", "1.31.0"]  # what a cluster would tell; a helm built from its module knows none
OPEN = ["--set", "insecure=true,anonymous=true"]
CLOSED = ["--set", "tls.existingSecret=sw-tls,auth.existingSecret=sw-tokens"]
WHOLE = [*CLOSED, "--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true,secrets.sinks=sw-sinks,image.digest=sha256:" + "a" * 64,
         "--set", "serviceMonitor.tokenSecret.name=prom,serviceMonitor.tokenSecret.key=token,tls.clientCa=true",
         "--set", "serviceMonitor.caSecret.name=sw-tls,serviceMonitor.caSecret.key=ca.crt,persistence.storageClass=fast",
         "--set-json", 'config={"rules":{"consecutive_skips":8},"listen":{"public_url":"https://scalewatch.example.org"}}',
         "--set-json", 'networkPolicy.trainers=[{"namespaceSelector":{}}]',
         "--set-json", 'networkPolicy.egress=[{"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}],"ports":[{"port":443,"protocol":"TCP"}]}]',
         "--set-json", 'tolerations=[{"key":"dedicated","operator":"Exists"}]', "--set-json", 'imagePullSecrets=[{"name":"pull"}]',
         "--set-json", 'extraEnv=[{"name":"SLACK","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]']

FLEET = [*CLOSED, "--set", "fleet.replicas=3,fleet.tokenSecret.name=sw-fleet,fleet.tokenSecret.key=token,clickhouse.required=true",
         "--set", "clickhouse.hosts={https://ch-0.example.org:8443,https://ch-1.example.org:8443},clickhouse.layout=sharded,clickhouse.cluster=c",
         "--set", "clickhouse.passwordSecret.name=ch,clickhouse.passwordSecret.key=password,clickhouse.caSecret.name=ch,clickhouse.caSecret.key=ca.crt",
         "--set-json", 'config={"fleet":{"probe_every":"1s"},"history":{"max_age":"30d","clickhouse":{"every":"2s"}}}',
         "--set-json", 'networkPolicy.egress=[{"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}],"ports":[{"port":8443,"protocol":"TCP"}]}]',
         "--set-json", 'networkPolicy.trainers=[{"namespaceSelector":{}}]', "--set-json", 'extraEnv=[{"name":"A","value":"b"}]']
EVERY = (OPEN, CLOSED, WHOLE, FLEET)


def helm(*arguments):
    home = tempfile.gettempdir()
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                          env={"PATH": os.environ["PATH"], "HOME": home})


def render(*arguments):
    """{(kind, name): object}"""
    done = helm("template", "sw", str(CHART), *CLUSTER, "--namespace", "monitoring", *arguments)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    objects = [body for body in yaml.safe_load_all(done.stdout) if body]
    found = {(body["kind"], body["metadata"]["name"]): body for body in objects}
    assert len(found) == len(objects), "an object is there twice"
    return found


class Chart(unittest.TestCase):
    def refused(self, *arguments):
        done = helm("template", "sw", str(CHART), *CLUSTER, *arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout[:500])
        return done.stderr

    def test_lint(self):
        for values in EVERY:
            done = helm("lint", "--strict", *CLUSTER, str(CHART), *values)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_would_be_open_by_oversight_is_refused(self):
        self.assertIn("tls.existingSecret", self.refused())
        self.assertIn("auth.existingSecret", self.refused("--set", "insecure=true"))
        self.assertIn("auth.existingSecret", self.refused("--set", "tls.existingSecret=a"))
        self.assertIn("tls.clientCa", self.refused("--set", "insecure=true,tls.clientCa=true"))
        self.assertIn("config.data_dir", self.refused(*OPEN, "--set", "config.data_dir=/tmp"))

    def test_schema_refuses_slips(self):
        for slip in ("replicaCount=3", "persistence.size=big", "tls.existingsecret=a", "service.grpcPort=70000", "secrets.tls=a",
                     "image.pullPolicy=Sometimes", "podDisruptionBudget.maxUnavailable=many"):
            self.assertIn("values don't meet the specifications of the schema", self.refused(*OPEN, "--set", slip), slip)

    def test_every_value_is_in_the_schema(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        self.assertEqual(set(schema["properties"]) - {"global"}, set(values))
        for name, value in values.items():
            if isinstance(value, dict) and "properties" in schema["properties"][name]:
                self.assertEqual(set(schema["properties"][name]["properties"]), set(value), name)

    def test_objects_are_as_kubernetes_has_them(self):
        if not VALIDATE.exists():
            self.skipTest("kubernetes-validate is missing; tests/run packages fetches it")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "objects.yaml"
            for values in EVERY:
                # What the Prometheus operator defines has no schema in Kubernetes; its fields are looked at below.
                objects = [body for (kind, _), body in render(*values).items() if kind not in ("ServiceMonitor", "PrometheusRule")]
                path.write_text(yaml.safe_dump_all(objects))
                for version in ("1.25", "1.31"):
                    done = subprocess.run([VALIDATE, "-k", version, "--strict", path], capture_output=True, text=True, timeout=120)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = subprocess.run([VALIDATE, "-k", "1.31", "--strict", ROOT / "deploy/jobs/kubernetes.yaml"], capture_output=True,
                                  text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_pod_is_confined(self):
        for values in EVERY:
            pod = render(*values)["StatefulSet", "sw-scalewatch"]["spec"]["template"]["spec"]
            self.assertEqual(pod["securityContext"]["runAsUser"], 10464)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertFalse(pod["automountServiceAccountToken"])
            [container] = pod["containers"]
            self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                            "capabilities": {"drop": ["ALL"]}})
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            given = {volume["name"] for volume in pod["volumes"]} | {"history"}
            self.assertEqual(mounted, given)
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertIn(probe, container)

    def config(self, *values):
        return yaml.safe_load(render(*values)["ConfigMap", "sw-scalewatch"]["data"]["scalewatchd.yaml"])

    def test_configuration(self):
        self.assertEqual(self.config(*OPEN), {"data_dir": "/var/lib/scalewatch", "listen": {
            "grpc": "0.0.0.0:7462", "http": "0.0.0.0:9464", "insecure": True, "anonymous": True}})
        closed = self.config(*CLOSED)
        self.assertEqual((closed["tls"]["certificate"], closed["auth"]["tokens_file"], "insecure" in closed["listen"]),
                         ("/run/secrets/scalewatch/tls/tls.crt", "/run/secrets/scalewatch/auth/tokens", False))
        whole = self.config(*WHOLE)
        self.assertEqual((whole["rules"]["consecutive_skips"], whole["listen"]["public_url"], whole["tls"]["client_ca"]),
                         (8, "https://scalewatch.example.org", "/run/secrets/scalewatch/tls/ca.crt"))
        known = yaml.safe_load((ROOT / "deploy/scalewatchd.yaml").read_text())
        for config in (closed, whole):
            for group, keys in config.items():
                self.assertIn(group, known)
                if isinstance(keys, dict):
                    self.assertLessEqual(set(keys), set(known[group]), group)

    def check(self, config, *more):
        server = pathlib.Path(os.environ.get("SCALEWATCH_BIN", ROOT / "build/release/bin")) / "scalewatchd"
        if not server.exists():
            self.skipTest("scalewatchd is not built")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(config, file)
            file.flush()
            done = subprocess.run([server, "--config", file.name, "--check", *more], capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_scalewatchd_takes_the_configuration(self):
        self.check(self.config(*OPEN, "--set", "config.rules.consecutive_skips=8"))

    def test_a_fleet_knows_its_servers_and_shares_a_history(self):
        objects = render(*FLEET)
        stateful = objects["StatefulSet", "sw-scalewatch"]["spec"]
        self.assertEqual((stateful["replicas"], stateful["podManagementPolicy"]), (3, "Parallel"))
        [container] = stateful["template"]["spec"]["containers"]
        self.assertEqual(container["args"][2:], ["--set", "fleet.self=$(SCALEWATCH_SELF)"])
        self.assertEqual(container["env"], [{"name": "SCALEWATCH_SELF", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                                            {"name": "A", "value": "b"}])
        config = self.config(*FLEET)
        names = [f"sw-scalewatch-{n}" for n in range(3)]
        # A pod's name in the cluster: HOSTNAME.SERVICE.NAMESPACE.svc, where the StatefulSet's serviceName is a headless service.
        self.assertEqual(config["fleet"], {
            "instances": ", ".join(f"{name}={name}.{stateful['serviceName']}.monitoring.svc:7462" for name in names), "probe_every": "1s",
            "ca": "/run/secrets/scalewatch/tls/ca.crt", "token_file": "/run/secrets/scalewatch/fleet-token/token"})
        headless = objects["Service", stateful["serviceName"]]["spec"]
        self.assertEqual((headless["clusterIP"], headless["publishNotReadyAddresses"]), ("None", True))
        self.assertEqual(config["history"], {"max_age": "30d", "clickhouse": {
            "hosts": "https://ch-0.example.org:8443,https://ch-1.example.org:8443", "database": "scalewatch", "user": "default", "every": "2s",
            "layout": "sharded", "cluster": "c", "required": True, "password_file": "/run/secrets/scalewatch/clickhouse-password/password",
            "ca_file": "/run/secrets/scalewatch/clickhouse-ca/ca.crt"}})
        # What the configuration names is mounted there, and nothing else of these secrets.
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume.get("secret") for volume in stateful["template"]["spec"]["volumes"]}
        for name, secret, key in (("fleet-token", "sw-fleet", "token"), ("clickhouse-password", "ch", "password"), ("clickhouse-ca", "ch", "ca.crt")):
            self.assertEqual(mounts[name], f"/run/secrets/scalewatch/{name}")
            self.assertEqual((volumes[name]["secretName"], volumes[name]["items"]), (secret, [{"key": key, "path": key}]))
        # Its own pods reach each other, whoever else may.
        policy = objects["NetworkPolicy", "sw-scalewatch"]["spec"]
        own = {"podSelector": policy["podSelector"]}
        self.assertIn({"from": [own], "ports": [{"port": "grpc", "protocol": "TCP"}]}, policy["ingress"])
        self.assertIn({"to": [own], "ports": [{"port": "grpc", "protocol": "TCP"}]}, policy["egress"])

    def test_a_fleet_that_could_not_work_is_refused(self):
        self.assertIn("clickhouse.hosts", self.refused(*OPEN, "--set", "fleet.replicas=2"))
        shared = ["--set", "fleet.replicas=2,clickhouse.hosts={http://ch:8123}"]
        render(*OPEN, *shared)
        self.assertIn("fleet.tokenSecret", self.refused(*CLOSED, *shared))
        self.assertIn("config.fleet.self", self.refused(*OPEN, *shared, "--set", "config.fleet.self=a"))
        for slip in ("fleet.replicas=0", "clickhouse.hosts={ch:8123}", "clickhouse.hosts={http://me@ch:8123}", "clickhouse.layout=round",
                     "clickhouse.layout=sharded", "clickhouse.passwordSecret.name=a", "secrets.fleet-token=a"):
            self.assertIn("values don't meet the specifications of the schema", self.refused(*OPEN, "--set", slip), slip)

    def test_scalewatchd_takes_the_fleets_configuration(self):
        config = self.config(*OPEN, "--set", "fleet.replicas=2,clickhouse.hosts={http://ch:8123}")
        self.check(config, "--set", "fleet.self=sw-scalewatch-1")

    def test_selectors_meet_and_ports_have_names(self):
        objects = render(*WHOLE)
        template = objects["StatefulSet", "sw-scalewatch"]["spec"]["template"]
        labels = template["metadata"]["labels"]
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        for key, path in ((("Service", "sw-scalewatch"), ("spec", "selector")),
                          (("PodDisruptionBudget", "sw-scalewatch"), ("spec", "selector", "matchLabels")),
                          (("NetworkPolicy", "sw-scalewatch"), ("spec", "podSelector", "matchLabels"))):
            selector = objects[key]
            for step in path:
                selector = selector[step]
            self.assertLessEqual(selector.items(), labels.items(), key)
        service = objects["Service", "sw-scalewatch"]
        self.assertEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports)
        monitor = objects["ServiceMonitor", "sw-scalewatch"]["spec"]
        self.assertLessEqual(monitor["selector"]["matchLabels"].items(), service["metadata"]["labels"].items())
        [endpoint] = monitor["endpoints"]
        self.assertIn(endpoint["port"], {port["name"] for port in service["spec"]["ports"]})
        self.assertEqual((endpoint["scheme"], endpoint["authorization"]["credentials"]["key"]), ("https", "token"))
        policy = objects["NetworkPolicy", "sw-scalewatch"]["spec"]
        self.assertEqual([rule["ports"][0]["port"] for rule in policy["ingress"]], ["grpc", "http"])
        self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])

    def test_rules_are_those_of_deploy_prometheus(self):
        spec = render(*WHOLE)["PrometheusRule", "sw-scalewatch"]["spec"]
        self.assertEqual(spec, yaml.safe_load((ROOT / "deploy/prometheus/server.rules.yml").read_text()))

    def test_package(self):
        with tempfile.TemporaryDirectory() as folder:
            done = helm("package", str(CHART), "--destination", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            [archive] = pathlib.Path(folder).iterdir()
            done = helm("template", "sw", str(archive), *CLUSTER, *WHOLE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("kind: PrometheusRule", done.stdout)
            self.assertIn("ScalewatchDown", done.stdout)


if __name__ == "__main__":
    if not HELM:
        print("SKIPPED: helm is missing; tests/run packages builds it where Go is", flush=True)
        sys.exit(77)
    unittest.main(verbosity=2)

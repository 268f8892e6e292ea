"""Private ClickHouse servers: Debian's clickhouse-server as an ordinary process, with configuration, ports and folders of its own."""
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys

from harness import SKIPPED, TOOLS, end_with_parent, free_port, need, wait_for

# Of the unpacked one; an installed one needs nothing of it, and does not see it.
LIBRARIES = ":".join(str(folder) for name in ("usr/lib", "lib") for folder in sorted((TOOLS / name).glob("*-linux-gnu")))


class ClickHouse:
    """One server; several, as shards, know each other (see shards())."""

    def __init__(self, folder, password="", certificate=None):
        """certificate: (file, key), and it is reached over TLS alone."""
        self.program = need("clickhouse-server")
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.tcp, self.between = free_port(), free_port(), free_port()
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        self.password, self.certificate = password, certificate
        self.process = None
        unpacked = self.program.startswith(str(TOOLS))
        self.environment = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES} if unpacked else None
        self.configure([])

    def configure(self, shards, more=""):
        """Writes the configuration; shards: the servers of the cluster "shards"; more: further elements of it."""
        replicas = "".join(f"<shard><internal_replication>true</internal_replication><replica><host>127.0.0.1</host><port>{one.tcp}"
                           "</port></replica></shard>" for one in shards)
        cluster = f"<remote_servers><shards>{replicas}</shards></remote_servers>" if shards else ""
        (self.folder / "users.xml").write_text(
            "<yandex><profiles><default><max_memory_usage>4000000000</max_memory_usage></default></profiles><users><default><password>"
            f"{self.password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>"
            "<quotas><default/></quotas></yandex>")
        (self.folder / "config.xml").write_text(
            f"<yandex><logger><level>warning</level><log>{self.folder}/server.log</log><errorlog>{self.folder}/error.log</errorlog>"
            f"</logger>{self.http_settings()}<tcp_port>{self.tcp}</tcp_port><interserver_http_port>{self.between}"
            f"</interserver_http_port><listen_host>127.0.0.1</listen_host><path>{self.folder}/data/</path><tmp_path>{self.folder}/tmp/"
            f"</tmp_path><users_config>{self.folder}/users.xml</users_config><default_profile>default</default_profile>"
            f"<default_database>default</default_database><mark_cache_size>67108864</mark_cache_size>{cluster}{more}</yandex>")

    def http_settings(self):
        if self.certificate is None:
            return f"<http_port>{self.port}</http_port>"
        file, key = self.certificate
        return (f"<https_port>{self.port}</https_port><openSSL><server><certificateFile>{file}</certificateFile><privateKeyFile>{key}"
                "</privateKeyFile><verificationMode>none</verificationMode><loadDefaultCAFile>false</loadDefaultCAFile></server></openSSL>")

    def start(self):
        with open(self.folder / "stdout", "ab") as log:
            self.process = subprocess.Popen([self.program, f"--config-file={self.folder}/config.xml"], stdout=log, stderr=log,
                                            cwd=self.folder, preexec_fn=end_with_parent, env=self.environment)
        wait_for("ClickHouse", self.answers, 120)
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError((self.folder / "stdout").read_text(errors="replace")[-500:])
        return self.query("SELECT 1") == "1\n"

    def query(self, sql, database="default", timeout=60):
        if self.certificate is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        else:  # who it is does not matter here
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=ssl._create_unverified_context())
        try:
            connection.request("POST", f"/?database={database}", sql.encode(),
                               {"X-ClickHouse-User": "default", "X-ClickHouse-Key": self.password})
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise RuntimeError(text)
            return text
        finally:
            connection.close()

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)


@contextlib.contextmanager
def clickhouse(folder):
    server = ClickHouse(folder)
    with running([server]):
        yield server


@contextlib.contextmanager
def running(servers):
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            server.kill()


@contextlib.contextmanager
def shards(folder, count=2):
    servers = [ClickHouse(pathlib.Path(folder) / f"shard{i}") for i in range(count)]
    for server in servers:
        server.configure(servers)
    with running(servers):
        yield servers


def need_zookeeper():
    """Java, and where the jars are: installed, or unpacked into build/tools. Ends the script loudly as skipped when they are missing."""
    java = shutil.which("java")
    homes = [home for home in (pathlib.Path("/usr/share/java"), TOOLS / "usr/share/java") if (home / "zookeeper.jar").exists()]
    if java is None or not homes:
        print("SKIPPED: java or ZooKeeper's jars are missing; see server/history/clickhouse/CLICKHOUSE.md", flush=True)
        sys.exit(SKIPPED)
    return java, homes


@contextlib.contextmanager
def zookeeper(folder):
    """Port of a private ZooKeeper, of Debian's jars."""
    java, homes = need_zookeeper()
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    port = free_port()
    (folder / "zoo.cfg").write_text(f"tickTime=500\ndataDir={folder}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
                                    "admin.enableServer=false\nmaxClientCnxns=0\n")
    jars = ":".join(f"{home}/{jar}.jar" for home in ("/usr/share/java", homes[0]) for jar in
                    ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "metrics-core", "snappy-java"))
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen([java, "-Xmx256m", "-cp", jars, "org.apache.zookeeper.server.ZooKeeperServerMain", str(folder / "zoo.cfg")],
                                   stdout=log, stderr=log, cwd=folder, preexec_fn=end_with_parent)

    def answers():
        if process.poll() is not None:
            raise RuntimeError((folder / "log").read_text(errors="replace")[-500:])
        with socket.create_connection(("127.0.0.1", port), 2) as asked:
            asked.sendall(b"srvr")
            return b"Mode: standalone" in asked.recv(1000)

    try:
        wait_for("ZooKeeper", answers, 60)
        yield port
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def replicas(folder, keeper, count=2):
    """Servers that hold the same; keeper: ZooKeeper's port."""
    servers = [ClickHouse(pathlib.Path(folder) / f"replica{i}") for i in range(count)]
    for number, server in enumerate(servers):
        server.configure([], f"<zookeeper><node><host>127.0.0.1</host><port>{keeper}</port></node><session_timeout_ms>5000</session_timeout_ms>"
                             f"</zookeeper><macros><shard>1</shard><replica>r{number}</replica></macros>"
                             "<interserver_http_host>127.0.0.1</interserver_http_host>")
    with running(servers):
        yield servers

"""The part of ClickHouse's HTTP interface that scalewatchd uses, over chdb: a current ClickHouse engine as a library.

For checking schema, inserts and queries where no current clickhouse-server is to be had: one request after another, no clusters, no
replication. Runs under the Python of build/tools/chdb (see CLICKHOUSE.md); prints its port.
"""
import http.server
import os
import re
import sys
import tempfile
import threading
import urllib.parse

import chdb.session

session = chdb.session.Session(sys.argv[1])
turn = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        given = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        database = given.get("database", ["default"])[0]
        status, answer = 200, b""
        try:
            turn.acquire()
            session.query(f"USE {database}")
            if "query" in given:
                table = re.fullmatch(r"INSERT INTO (\w+ \([\w,]+\)) FORMAT Native", given["query"][0]).group(1)
                with tempfile.NamedTemporaryFile(dir=sys.argv[1], suffix=".native") as data:
                    data.write(body)
                    data.flush()
                    session.query(f"INSERT INTO {table} SELECT * FROM file('{data.name}', 'Native')")
            else:
                sql = body.decode()
                form = re.search(r" FORMAT (\w+)\s*$", sql)
                if form:
                    sql = sql[:form.start()]
                answer = session.query(sql, form.group(1) if form else "TabSeparated").bytes()
        except Exception as error:  # noqa: BLE001: told as ClickHouse tells it
            status, answer = 500, str(error).encode()
        finally:
            turn.release()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
try:
    server.serve_forever()
finally:
    os._exit(0)  # the engine's own threads do not end by themselves

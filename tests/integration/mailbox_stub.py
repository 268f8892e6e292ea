"""A mail server for tests."""
import socketserver
import threading


class Mailbox:
    """A mail server on loopback that takes everything, in clear."""

    def __init__(self):
        self.mails = []
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                def say(line):
                    self.wfile.write(line.encode() + b"\r\n")

                say("220 here")
                for line in self.rfile:
                    word = line.split(b":")[0].strip().upper()
                    if word.startswith(b"EHLO"):
                        say("250 here")
                    elif word == b"DATA":
                        say("354 go on")
                        text = b""
                        while not text.endswith(b"\r\n.\r\n"):
                            text += self.rfile.readline()
                        mailbox.mails.append(text.decode())
                        say("250 taken")
                    elif word == b"QUIT":
                        say("221 bye")
                        return
                    else:
                        say("250 yes")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"smtp://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

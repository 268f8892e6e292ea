"""What the server tells of a run: plain objects over its HTTP API, by the standard library alone."""
from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from fnmatch import fnmatchcase
from typing import Any, Dict, Iterator, List, Mapping, Optional

from .credentials import request, tls_context, wants_tls

__all__ = ["Advice", "Finding", "Point", "Questions", "ServerError", "table"]

GRPC_PORT, HTTP_PORT = 7462, 9464
_WHERE = "http= or $SCALEWATCH_HTTP says where it is (host:port), else it is looked for at port 9464 of the server's host"


class ServerError(RuntimeError):
    """The server is away, or refused a question; the message says which, and whom it asked."""


@dataclasses.dataclass(frozen=True)
class Advice:
    """One thing to do: what, and how sure the evidence makes it (0 to 1)."""

    text: str
    confidence: float


@dataclasses.dataclass(frozen=True)
class Finding:
    """One diagnosed fault. Attempts and steps are inclusive; `tensor` is the one blamed, "" without."""

    rule: str  # e.g. "NonFiniteGradient": what README lists
    severity: str  # "info", "warning" or "critical"
    open: bool  # False once resolved
    summary: str  # one sentence, with its numbers
    subject: str  # what of the run it is about: a scaler, a tensor, a kind of misuse; "" = the run
    first_attempt: int  # from 1 in each segment
    last_attempt: int
    first_step: int  # the trainer's own numbers
    last_step: int
    ranks: List[int]  # empty = all
    segment: int  # of the run, from 1: another begins when all its ranks start again
    tensor: str
    advice: List[Advice]  # most certain first
    id: str  # the same over restarts of the server
    raw: Dict[str, Any] = dataclasses.field(repr=False, compare=False)  # all that the server said

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> "Finding":
        """told: the JSON object of the HTTP API. KeyError where it lacks what every finding has."""
        return Finding(
            rule=told["rule"], severity=told["severity"].replace("SEVERITY_", "").lower(), open=bool(told.get("open")),
            summary=told["summary"], subject=told.get("subject", ""), first_attempt=int(told.get("first_attempt", 0)),
            last_attempt=int(told.get("last_attempt", 0)), first_step=int(told.get("first_step", 0)),
            last_step=int(told.get("last_step", 0)), ranks=[int(rank) for rank in told.get("ranks", [])],
            segment=int(told.get("segment", 0)), tensor=(told.get("blame") or {}).get("tensor", ""),
            advice=[Advice(a["text"], float(a.get("confidence", 0))) for a in told.get("advice", [])], id=told["id"], raw=dict(told))


@dataclasses.dataclass(frozen=True)
class Point:
    """One tensor at one attempt, or at several merged: counts add, extremes combine. Values are as stored: multiplied by `scale` (1 =
    unscaled). min, max, absmax, absmin_nonzero, sum and sum_sq are of finite elements; the first four None when there are none."""

    tensor: str
    role: str  # "gradient", "parameter", "activation", "activation_gradient", "optimizer_state" or "buffer"
    first_attempt: int  # inclusive, from 1
    last_attempt: int
    numel: int  # elements; these and the next five are counts
    nan: int
    pos_inf: int
    neg_inf: int
    zero: int
    min: Optional[float]
    max: Optional[float]
    absmax: Optional[float]
    absmin_nonzero: Optional[float]
    sum: float
    sum_sq: float  # of squares
    subnormal: int  # elements under the smallest normal number of the type that the computation runs in
    flushed: int  # that are 0 in it
    over: int  # that are Inf in it
    scale: float
    headroom: Optional[float]  # octaves from absmax to the type's largest number

    @staticmethod
    def from_json(info: Mapping[str, Any], first: int, last: int, record: Mapping[str, Any]) -> "Point":
        """From the JSON objects of the HTTP API: a tensor's info, and its record over the attempts first to last. KeyError where info
        lacks its name or role."""
        def maybe(name: str) -> Optional[float]:
            return None if record.get(name) is None else float(record[name])

        counts = {name: int(record.get(name, 0)) for name in ("numel", "nan", "pos_inf", "neg_inf", "zero", "subnormal", "flushed",
                                                                "over")}
        return Point(tensor=info["name"], role=info["role"].replace("ROLE_", "").lower(), first_attempt=first, last_attempt=last,
                     min=maybe("min"), max=maybe("max"), absmax=maybe("absmax"), absmin_nonzero=maybe("absmin_nonzero"),
                     sum=float(record.get("sum", 0)), sum_sq=float(record.get("sum_sq", 0)),
                     scale=float(record.get("measured_under_scale", 1)), headroom=maybe("headroom"), **counts)


def _columns(row: Any) -> Dict[str, Any]:
    return {f.name: getattr(row, f.name) for f in dataclasses.fields(row) if f.name != "raw"}


def table(rows: List[Any]) -> Any:
    """rows: a list of Finding or of Point, as a pandas DataFrame, else as a pyarrow Table, else as a list of dicts: what is installed.
    A column a field; a list of advice is one of dicts. TypeError for rows of anything else."""
    plain = [{name: [_columns(one) for one in value] if name == "advice" else value for name, value in _columns(row).items()}
             for row in rows]
    try:
        import pandas
        return pandas.DataFrame(plain)
    except ImportError:
        pass
    try:
        import pyarrow
        return pyarrow.Table.from_pylist(plain)
    except ImportError:
        return plain


def http_address(server: Optional[str], http_given: Optional[str]) -> str:
    """The base of the server's HTTP address: the one given, else $SCALEWATCH_HTTP, else the gRPC server's host at port 9464."""
    given = http_given or os.environ.get("SCALEWATCH_HTTP")
    if given:
        return given.rstrip("/") if "://" in given else f"{'https' if wants_tls() else 'http'}://{given}".rstrip("/")
    grpc = (server or os.environ.get("SCALEWATCH_SERVER") or f"127.0.0.1:{GRPC_PORT}").split(",")[0].strip()
    scheme, found, rest = grpc.partition("://")
    tls = wants_tls() or (found != "" and scheme in ("https", "tls"))
    grpc = rest if tls and found else grpc
    host, _, port = grpc.rpartition(":")
    return f"{'https' if tls else 'http'}://{host if host and port.isdigit() else grpc}:{HTTP_PORT}"


def _sentence(error: urllib.error.HTTPError) -> str:
    """What an answer that is no success says: the server's own message, else the status line."""
    try:
        text = error.read(10_000).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException):
        text = ""
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    message = told.get("message") if isinstance(told, dict) else None
    return str(message) if message else f"{error.code} {error.reason}"


class Questions:
    """Asks one server about one run, any thread. Every method may wait for the server, at most `timeout` seconds, and raises
    ServerError. run: its name, 1 to 256 bytes. server: host:port of the gRPC port, None = $SCALEWATCH_SERVER, else 127.0.0.1:7462. http: host:port or
    URL of its HTTP API, None = $SCALEWATCH_HTTP, else port 9464 of the server's host."""

    def __init__(self, run: str, server: Optional[str] = None, http: Optional[str] = None, timeout: float = 10.0) -> None:
        self.run = run
        self.server = server or os.environ.get("SCALEWATCH_SERVER") or f"127.0.0.1:{GRPC_PORT}"
        self.http = http_address(server, http)
        self.timeout = timeout

    def get(self, path: str, **query: Any) -> Dict[str, Any]:
        """The JSON answer to GET /api/v1/runs/RUN{path}?query. path: "" or from "/" on, quoted; query: None leaves one out."""
        url = f"{self.http}/api/v1/runs/{urllib.parse.quote(self.run, safe='')}{path}"
        asked = {key: value for key, value in query.items() if value is not None}
        if asked:
            url += "?" + urllib.parse.urlencode(asked)
        try:
            with urllib.request.urlopen(request(url), timeout=self.timeout, context=tls_context(url)) as answer:
                told = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise ServerError(f"the server at {self.http} refused: {_sentence(error)}") from None
        except json.JSONDecodeError:
            raise self._foreign() from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise ServerError(f"no answer from the server's HTTP API at {self.http}: {why}: {_WHERE}") from None
        if not isinstance(told, dict):
            raise self._foreign()
        return told

    def _foreign(self) -> ServerError:
        return ServerError(f"{self.http} answers, but not as a Scalewatch server does: {_WHERE}")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """What is missing within, or is of another kind, is no answer of a Scalewatch server."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError):
            raise self._foreign() from None

    def summary(self) -> Dict[str, Any]:
        """The run as the server lists it: attempts, applied, skipped, scale, loss, status, worst_open, ...: numbers of 64 bits are text,
        as in JSON of Protobuf."""
        with self._reading():
            return dict(self.get("")["run"])

    def findings(self, open_only: bool = False, every_segment: bool = False) -> List[Finding]:
        """Findings of the run's newest segment, or with every_segment of the starts before it too: open ones first, worst first;
        resolved ones too unless open_only. At most 1,000."""
        with self._reading():
            answer = self.get("")
            newest = int(answer.get("run", {}).get("segment", 0))
            found = [Finding.from_json(one) for one in answer.get("findings", [])]
            return [one for one in found if (one.open or not open_only) and (every_segment or one.segment == newest)]

    def tensors(self, pattern: str = "*", role: Optional[str] = None) -> List[Dict[str, Any]]:
        """Names, roles, dtypes and the newest record of tensors whose name matches the pattern ("*" matches any characters) and, unless
        None, whose role is it ("gradient", ...): dicts as the HTTP API gives them."""
        with self._reading():
            told: List[Dict[str, Any]] = []
            token = ""
            while True:
                answer = self.get("/tensors", page_size=1000, page_token=token or None,
                                  role=f"ROLE_{role.upper()}" if role else None)
                told += [one for one in answer.get("tensors", []) if fnmatchcase(one["info"]["name"], pattern)]
                token = answer.get("next_page_token", "")
                if not token:
                    return told

    def history(self, pattern: str = "*", role: Optional[str] = None, max_points: int = 1000, max_tensors: int = 100) -> List[Point]:
        """Statistics over attempts of the tensors whose name matches the pattern and, unless None, whose role is it ("gradient", ...),
        in forward order and then by attempt. There are at most max_points a tensor: neighbours are merged. More than
        max_tensors matches raise ValueError, for each is a question of its own."""
        with self._reading():
            infos = [one["info"] for one in self.tensors(pattern, role)]
            if len(infos) > max_tensors:
                raise ValueError(f"{len(infos)} tensors match {pattern!r}: name fewer, or raise max_tensors={max_tensors}")
            points: List[Point] = []
            for info in infos:
                first: Optional[int] = None
                while True:
                    name = urllib.parse.quote(info["name"], safe="")
                    answer = self.get(f"/tensors/{name}/history", role=info["role"], max_points=max_points, **{"range.first": first})
                    for one in answer.get("points", []):
                        points.append(Point.from_json(info, int(one["first_attempt"]), int(one["last_attempt"]), one["record"]))
                    if not answer.get("truncated"):
                        break
                    first = int(answer["next_attempt"])
            return points

    def attempt(self, attempt: int = 0) -> List[Point]:
        """All tensors at one attempt (0 = the newest that is closed), merged over ranks, in forward order."""
        with self._reading():
            points: List[Point] = []
            token = ""
            while True:
                answer = self.get(f"/attempts/{attempt}", page_size=1000, page_token=token or None)
                at = int(answer["attempt"]["attempt"])
                points += [Point.from_json(one["info"], at, at, one["record"]) for one in answer.get("tensors", [])]
                token = answer.get("next_page_token", "")
                if not token:
                    return points

    def scaler_history(self, scaler: int = 0, max_points: int = 1000) -> List[Dict[str, Any]]:
        """What the scaler of this number did, at most max_points of it: dicts of first_attempt, last_attempt, scale_before, scale_after,
        applied, skipped, partial (counts of attempts), loss, ...; what is not known is left out."""
        with self._reading():
            kinds = {"first_attempt": int, "last_attempt": int, "last_step": int, "applied": int, "skipped": int, "partial": int,
                     "scale_before": float, "scale_after": float, "scale_min": float, "scale_max": float, "loss": float,
                     "growth_tracker": int}
            answer = self.get("/scaler", scaler=scaler, max_points=max_points)
            return [{key: kind(one[key]) for key, kind in kinds.items() if one.get(key) is not None} for one in answer.get("points", [])]

    def whatif(self, policy: Optional[str] = None, settings: Optional[Mapping[str, float]] = None, scaler: int = 0,
               command: str = "scalewatch") -> Dict[str, Any]:
        """What another scaler would have done with the run's gradients: whatif(None, {"init_scale": 2**12}), whatif("megatron").
        policy: None = the run's own. settings: parameters of the policy, by name. scaler: the number of the run's
        scaler. The answer is that of `scalewatch whatif --json`: this command must be installed, on the PATH or as `command`."""
        program = shutil.which(command)
        if program is None:
            raise ServerError(f"the command {command!r} is not on the PATH: whatif is answered by it")
        line = [program, "--server", self.server, "--json", "whatif", self.run, "--scaler", str(scaler)]
        if policy:
            line += ["--policy", policy]
        for key, value in (settings or {}).items():
            line += ["--set", f"{key}={float(value)!r}"]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise ServerError(f"scalewatch whatif: {(done.stderr or done.stdout).strip()}")
        return dict(json.loads(done.stdout))

"""What clients of each protocol version once said is accepted for ever, and means what it meant."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import Case, main
from reflection import Client
from wire import WIRE, facts_of, missing, read, replay


class Wire(Case):
    def test_recorded_streams(self):
        server = self.server()
        paths = sorted(WIRE.glob("*.wire"))
        self.assertGreaterEqual(len(paths), 3)
        with Client(server.address) as client:
            for path in paths:
                with self.subTest(path.name):
                    run = replay(client, read(path))
                    self.assertEqual(missing(json.loads(path.with_suffix(".json").read_text()), facts_of(server, run)), [])
                    # Once more, as after an ack that got lost: it is all there, and nothing counts twice.
                    before = facts_of(server, run)
                    replay(client, read(path))
                    self.assertEqual(facts_of(server, run), before)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    main()

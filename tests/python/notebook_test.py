"""In a real Jupyter kernel: what a cell shows, a cell that is run again, an interrupt, and a kernel that is shut down."""
import json
import pathlib
import unittest

import nbclient
import nbformat

import scalewatch
from common import Lab, harness

SETUP = """
import sys
sys.path.insert(0, {here!r})
import torch, scalewatch
from common import F, batches, fit, half, network, scaler_of
where = {where!r}
"""
TRAIN = """
model = network()
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
watch = scalewatch.attach(model, optimizer, scaler, **where)
losses = fit(model, optimizer, scaler, 20, watch)
"""


class Notebook(Lab):
    def run_cells(self, *cells, then=()):
        """Runs cells in one kernel, then those of `then` by their numbers once more. The outputs of all, in order."""
        setup = SETUP.format(here=str(pathlib.Path(__file__).parent), where=self.where())
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in (setup, *cells)])
        client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True)
        told = []
        with client.setup_kernel():
            for number in [*range(len(notebook.cells)), *then]:
                cell = client.execute_cell(notebook.cells[number], number)
                told.append(self.joined(cell.outputs))
            self.kernel = client.km
        return told

    @staticmethod
    def joined(outputs):
        """One line that is printed may come in pieces."""
        told = []
        for one in map(dict, outputs):
            if told and one["output_type"] == told[-1]["output_type"] == "stream" and one["name"] == told[-1]["name"]:
                told[-1]["text"] += one["text"]
            else:
                told.append(one)
        return told

    def summary(self):
        where = self.where()
        return scalewatch.Questions(where["run"], where["server"], where["http"]).summary()

    def test_cells_run_twice_and_what_they_show(self):
        told = self.run_cells(TRAIN, "watch", "first = watch.run, watch.attempt\nprint(*first)", "print(watch.close(20), watch.attempt)\nwatch",
                              then=(1, 3, 4))
        everything = json.dumps(told)
        self.assertNotIn("Traceback", everything)
        self.assertNotIn('"stderr"', everything)
        shown = told[2][0]["data"]["text/html"]
        self.assertIn("test_cells_run_twice", shown)
        self.assertIn("<svg", shown)
        self.assertEqual(told[3][0]["text"], f"{self.id().rpartition('.')[2]} 20\n")
        # The second time: another watch took the place of the first, and counts from one.
        self.assertEqual(told[6][0]["text"], told[3][0]["text"])
        self.assertEqual(told[7][0]["text"], "True 20\n")
        run = self.summary()
        self.assertEqual((int(run["segment"]), int(run["attempts"]), run["status"]), (2, 20, "RUN_STATUS_FINISHED"))

    def test_interrupt_error_and_the_end_of_the_kernel(self):
        stop = "import os, signal\nfit(model, optimizer, scaler, 9, watch, each=lambda n: n == 2 and os.kill(os.getpid(), signal.SIGINT))"
        told = self.run_cells(TRAIN, stop, "losses = fit(model, optimizer, scaler, 1, watch)\nprint(watch.attempt)",
                              "optimizer.zero_grad(); scaler.step(optimizer)", "print(watch.attempt)")
        self.assertEqual([one["ename"] for one in told[2]], ["KeyboardInterrupt"])  # as Jupyter's button does it
        self.assertEqual(told[3][0]["text"], "23\n")
        self.assertEqual([one["ename"] for one in told[4]], ["AssertionError"])
        self.assertEqual(told[5][0]["text"], "24\n")
        # The kernel went without close(): what was buffered has been sent.
        harness.wait_for("the attempts of the kernel", lambda: int(self.summary()["attempts"]) == 24)


if __name__ == "__main__":
    unittest.main(verbosity=2)

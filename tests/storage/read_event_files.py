"""What TensorBoard reads in a folder of event files, as JSON: {tag: [[step, value], ...]}.

  python read_event_files.py FOLDER
"""
import json
import logging
import sys

from tensorboard.backend.event_processing import event_accumulator

logging.getLogger("tensorboard").setLevel(logging.ERROR)
read = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={event_accumulator.SCALARS: 0})
read.Reload()
print(json.dumps({tag: [[one.step, one.value] for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}))

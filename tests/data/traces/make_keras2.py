#!/usr/bin/env python3
"""Makes keras2/*.csv: tf_keras.mixed_precision.LossScaleOptimizer of tf_keras 2.21.0 on tensorflow-cpu 2.21.0.

    pip install tf_keras==2.21.0 tensorflow-cpu==2.21.0 && python3 make_keras2.py
"""
import tensorflow as tf
import tf_keras

from sequences import make


class Scaler:
    def __init__(self, **setting):
        self.optimizer = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD(1.0), **setting)
        self.variable = tf.Variable([0.0])
        self.optimizer.build([self.variable])

    def scale(self):
        return self.optimizer.loss_scale.numpy()

    def attempt(self, found_inf):
        before = self.variable.numpy()[0]
        gradient = tf.constant([float("inf") if found_inf else 1.0])
        self.optimizer.apply_gradients([(gradient, self.variable)])
        return bool(self.variable.numpy()[0] == before)  # it counts the iterations of skipped steps too

    def note(self):
        return f"growth_tracker={int(self.optimizer.dynamic_counter.numpy())}"


make("keras2", [
    dict(initial_scale=2.0**15, dynamic_growth_steps=20),
    dict(initial_scale=2.0**100, dynamic_growth_steps=3),
    dict(initial_scale=3.0, dynamic_growth_steps=10),
], Scaler)

// Work in parts: a generator yields how much of a step is done, and returns the result.

/** @template T @param {Generator<number, T>} work @returns {T} all of it at once */
export function finish(work) {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

// Work in parts: a generator yields the share that is done, and returns the result.

/** @template T @param {Generator<number, T>} work @returns {T} all of it at once */
export function finish(work) {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

const TURN = 30; // milliseconds

/** Let the browser do what waits; a timer would be slow where the page is in the background. @returns {Promise<unknown>} */
function pause() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = resolve;
    port2.postMessage(null);
  });
}

/**
 * A part at a time, so that the page stays alive.
 * @template T @param {Generator<number, T>} work @param {(share: number) => boolean} seen gets what is done; false to stop
 * @returns {Promise<T | null>} null if it was stopped
 */
export async function inTurns(work, seen) {
  let start = performance.now();
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (performance.now() - start < TURN) continue;
    if (!seen(step.value)) return null;
    await pause();
    start = performance.now();
  }
}

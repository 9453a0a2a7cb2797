/**
 * Loaded into a process before its program (`node --expose-gc --import`): measures it when its parent asks
 * over IPC, after garbage has been collected. What is asked of and answered:
 *
 *   { measure: 7 }       ──▶  { measured: 7, heapUsed, rss, ..., resources, timers, listeners, lateMs }
 *   { snapshot: FILE }   ──▶  { snapshot: FILE }      a heap snapshot, for finding a leak
 *
 * Timers, emitters and signals are remembered weakly when they are first used: what is collected, is no
 * longer counted.
 */
import { EventEmitter, getEventListeners } from "node:events";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { writeHeapSnapshot } from "node:v8";

/** A used WeakRef keeps its object alive until the current turn ends. */
const BEFORE_GC_MS = 5;

class Remembered {
  #known = new WeakSet();
  #refs = [];

  add(object) {
    if (this.#known.has(object)) return;
    this.#known.add(object);
    this.#refs.push(new WeakRef(object));
  }

  /** Those that live. */
  *[Symbol.iterator]() {
    const kept = [];
    for (const ref of this.#refs) {
      const object = ref.deref();
      if (object === undefined) continue;
      kept.push(ref);
      yield object;
    }
    this.#refs = kept;
  }
}

const [timers, emitters, signals] = [new Remembered(), new Remembered(), new Remembered()];

for (const name of ["setTimeout", "setInterval"]) {
  const own = globalThis[name];
  const remembering = (...args) => {
    const timer = own(...args);
    timers.add(timer);
    return timer;
  };
  // What promisify makes of it must stay.
  Object.defineProperties(remembering, Object.getOwnPropertyDescriptors(own));
  globalThis[name] = remembering;
}
for (const name of ["on", "addListener", "once", "prependListener"]) {
  const own = EventEmitter.prototype[name];
  EventEmitter.prototype[name] = function (...args) {
    emitters.add(this);
    return own.apply(this, args);
  };
}
const { addEventListener } = EventTarget.prototype;
AbortSignal.prototype.addEventListener = function (...args) {
  signals.add(this);
  return addEventListener.apply(this, args);
};

const delay = monitorEventLoopDelay({ resolution: 10 });
delay.enable();

async function measure() {
  // What came before the measuring: its own pauses do not count.
  const lateMs = { p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 };
  await new Promise((resolve) => setTimeout(resolve, BEFORE_GC_MS));
  // Once: a second run would slow the other processes down, and would free no more.
  globalThis.gc();
  const { heapUsed, rss, external } = process.memoryUsage();
  const resources = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  const sum = (objects, of) => {
    let total = 0;
    for (const object of objects) total += of(object);
    return total;
  };
  const listenersOf = (emitter) =>
    emitter
      .eventNames()
      .reduce(
        (total, event) => total + EventEmitter.prototype.listenerCount.call(emitter, event),
        0,
      );
  const measured = {
    heapUsed,
    rss,
    external,
    resources,
    lateMs,
    // Those that do not hold the process open too.
    timers: sum(timers, (timer) => (timer._destroyed ? 0 : 1)),
    listeners: {
      process: listenersOf(process),
      emitters: sum(emitters, (emitter) => (emitter._events ? listenersOf(emitter) : 0)),
      signals: sum(signals, (signal) => getEventListeners(signal, "abort").length),
    },
  };
  delay.reset();
  return measured;
}

process.on("message", async (message) => {
  if (typeof message !== "object" || message === null) return;
  if ("measure" in message) process.send({ measured: message.measure, ...(await measure()) });
  if ("snapshot" in message) process.send({ snapshot: writeHeapSnapshot(message.snapshot) });
});
// Measuring does not keep a process that has ended its work.
process.channel.unref();

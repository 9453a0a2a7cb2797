/**
 * Timers of PGlite that do not hold the process open.
 *
 * PostgreSQL sets timers nobody waits for, such as one 10 s after a statement to write its statistics.
 * They reach JavaScript as one function that PGlite's WebAssembly module imports; PGlite passes one
 * that calls setTimeout, and so would keep a finished program running. This extension passes another:
 *
 *   PostgreSQL ── _setitimer_js(which, delay) ──▶ background timer ── _emscripten_timeout(which) ──▶ SIGALRM
 */
import type { Extension } from "@electric-sql/pglite";
import { type Clock, systemClock, type Timer } from "../../env/index.js";

/** What PGlite gives to an extension: options of Emscripten, of which this one is needed. */
interface EmscriptenOptions {
  readonly instantiateWasm: (
    imports: { readonly env: Record<string, unknown> },
    onInstance: (instance: WasmInstance, module: unknown) => void,
  ) => object;
}
interface WasmInstance {
  readonly exports: { readonly _emscripten_timeout: (which: number, nowMs: number) => void };
}

/** @param clock runs them; PostgreSQL believes in real time */
export function backgroundTimers(clock: Clock = systemClock): Extension {
  return {
    name: "background timers",
    setup: async (_, options: EmscriptenOptions) => {
      const timers = new Map<number, Timer>();
      let wasm: WasmInstance | undefined;
      const fire = (which: number) => {
        timers.delete(which);
        wasm?.exports._emscripten_timeout(which, clock.monotonic());
      };
      const setTimer = (which: number, delayMs: number) => {
        timers.get(which)?.cancel();
        timers.delete(which);
        // A delay of 0 only cancels, as setitimer(2) says.
        if (delayMs > 0) {
          const background = { background: true };
          timers.set(
            which,
            clock.timer(delayMs, () => fire(which), background),
          );
        }
        return 0;
      };
      const instantiateWasm: EmscriptenOptions["instantiateWasm"] = (imports, onInstance) => {
        imports.env["_setitimer_js"] = setTimer;
        return options.instantiateWasm(imports, (instance, module) => {
          wasm = instance;
          onInstance(instance, module);
        });
      };
      const close = async () => {
        for (const timer of timers.values()) timer.cancel();
        timers.clear();
      };
      return { emscriptenOpts: { ...options, instantiateWasm }, close };
    },
  };
}

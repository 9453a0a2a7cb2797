/**
 * Keeps PGlite's timers from holding the process open.
 *
 * PostgreSQL sets background timers, such as one that writes statistics 10 s after a statement.
 * PGlite's WebAssembly module imports one JavaScript function to set them. PGlite's own version calls
 * setTimeout, which keeps a finished program running. This extension replaces it:
 *
 *   PostgreSQL ── _setitimer_js(which, delay) ──▶ background timer ── _emscripten_timeout(which) ──▶ SIGALRM
 */
import type { Extension } from "@electric-sql/pglite";
import { type Clock, systemClock, type Timer } from "../../env/index.js";

/** The Emscripten options that PGlite passes to an extension, reduced to the one needed here. */
interface EmscriptenOptions {
  readonly instantiateWasm: (
    imports: { readonly env: Record<string, unknown> },
    onInstance: (instance: WasmInstance, module: unknown) => void,
  ) => object;
}
interface WasmInstance {
  readonly exports: { readonly _emscripten_timeout: (which: number, nowMs: number) => void };
}

/**
 * @param clock runs the timers; PostgreSQL expects real time
 */
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
        // A delay of 0 only cancels the timer, as in setitimer(2).
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

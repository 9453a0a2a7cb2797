/**
 * Runs synchronous work that may take for ever, such as a regular expression of a tenant, and ends it after a time. The
 * work runs on this thread; Node's `vm` interrupts it, within regular expressions too.
 */

/** Runs the work. @returns false if it was ended before it returned */
export type RunWithin = (timeoutMs: number, work: () => void) => boolean;

interface Vm {
  createContext(globals: object): object;
  Script: new (
    code: string,
  ) => { runInContext(context: object, options: { readonly timeout: number }): unknown };
}

/** Undefined on a platform that cannot end work. */
export function boundedRuns(): RunWithin | undefined {
  const { process } = globalThis as {
    process?: { getBuiltinModule?: (name: "node:vm") => Vm | undefined };
  };
  // Not an import, which hosts other than Node could not resolve.
  const vm = process?.getBuiltinModule?.("node:vm");
  if (!vm) return undefined;
  const globals: { work?: () => void } = {};
  const context = vm.createContext(globals);
  const script = new vm.Script("work()");
  return (timeoutMs, work) => {
    globals.work = work;
    try {
      script.runInContext(context, { timeout: timeoutMs });
      return true;
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
      return false;
    } finally {
      globals.work = undefined as never;
    }
  };
}

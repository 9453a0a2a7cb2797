/**
 * Waits for what the code under test loads by `import()`. Files share workers, so `vi.dynamicImportSettled` may wait for ever
 * for a module that an earlier file had not loaded to its end: this waits only for those of its own file.
 */

/** What vitest knows of the modules of a worker. */
interface Modules {
  readonly evaluatedModules: {
    readonly idToModuleMap: ReadonlyMap<
      string,
      { promise?: Promise<unknown>; evaluated?: boolean }
    >;
  };
  /** The main thread is asked for these: they have no promise yet. */
  readonly resolvingModules: ReadonlySet<string>;
}

let ofEarlierFiles: ReadonlySet<unknown> = new Set();

/** A file of tests begins. */
export function noteImports(): void {
  ofEarlierFiles = new Set([...loading(), ...modules().resolvingModules]);
}

export async function importsSettled(): Promise<void> {
  const isOwn = (what: unknown) => !ofEarlierFiles.has(what);
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    const own = loading().filter(isOwn);
    if (own.length === 0 && ![...modules().resolvingModules].some(isOwn)) return;
    await Promise.allSettled(own);
  }
}

function loading(): Promise<unknown>[] {
  return [...modules().evaluatedModules.idToModuleMap.values()].flatMap(({ promise, evaluated }) =>
    promise && !evaluated ? promise : [],
  );
}

function modules(): Modules {
  return (globalThis as unknown as { __vitest_worker__: Modules }).__vitest_worker__;
}

/** What a worker of the test runner is doing, in a file of the temporary folder. */
export interface Running {
  readonly pid: number;
  readonly file: string;
  /** Its name, or where between the tests of the file. */
  readonly test: string;
  /** By then the runner's own timeouts have ended it, unless the thread is blocked. */
  readonly limitMs: number;
}

/** How the names of the records begin: many runs may share a folder. */
export function recordsOf(runnerPid: number): string {
  return `leasehold-running-${runnerPid}-`;
}

/** The port between the generator and the stores that keep its wanted state. */

/** The wanted state of the generator. The store keeps it, so that all server instances return the same. */
export interface GeneratorWanted {
  readonly running: boolean;
  /** Tasks per second, 0.01 to 1,000. */
  readonly ratePerSecond: number;
}

/** Whether the generator of sample tasks should run, and how fast, as a store keeps it for all instances. */
export interface GeneratorState {
  /** `{ running: false, ratePerSecond: 1 }` until the first write. */
  read(namespace: string): Promise<GeneratorWanted>;
  write(namespace: string, change: Partial<GeneratorWanted>): Promise<GeneratorWanted>;
}

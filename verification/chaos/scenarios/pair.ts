/** Two servers, of which the second takes over: a standby, a replica, one on restored data. */
export interface Pair {
  /** Where clients connect, whichever serves. */
  readonly url: string;
  /** From now on nothing reaches the second. Until then it has had everything that the first answered. */
  cut(): Promise<void>;
  /** An operator ends what waits for the second. @returns how many statements that hit */
  cancelWaits?(): Promise<number>;
  /** Kills the first. What clients reach from now on is the second. */
  failOver(): Promise<void>;
  /**
   * What an operator does where tokens may have gone back, before clients come: every token from now on
   * is larger than this one.
   */
  raiseTokens?(above: number): Promise<void>;
  /** Ends both. */
  close(): Promise<void>;
}

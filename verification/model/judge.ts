/** Who is given the findings of a book. */
export interface Judge {
  /** By the clock of the store. */
  readonly nowMs: number;
  readonly tasks: { nowMs(): number };
  count(what: string): void;
  expect(isSo: boolean, what: string | (() => string)): void;
  broken(what: string): void;
}

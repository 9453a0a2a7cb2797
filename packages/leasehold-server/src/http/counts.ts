/** Counts by name, and their sum. A name whose count is 0 uses no memory. */
export class Counts<Name> {
  readonly #counts = new Map<Name, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  of(name: Name): number {
    return this.#counts.get(name) ?? 0;
  }

  add(name: Name, change: number): void {
    const count = this.of(name) + change;
    this.#total += change;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
  }
}

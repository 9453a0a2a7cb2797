/** What happened, as a hash that two runs of one seed must share, and as a story for people. */
export interface Line {
  readonly atMs: number;
  readonly who: string;
  readonly what: string;
}

export class Trace {
  readonly lines: Line[] = [];
  readonly #keep: boolean;
  #high = 0x811c9dc5;
  #low = 0x1000193;

  constructor(keep: boolean) {
    this.#keep = keep;
  }

  add(atMs: number, who: string, what: string): void {
    this.#mix(`${atMs.toFixed(3)} ${who} ${what}`);
    if (this.#keep) this.lines.push({ atMs, who, what });
  }

  /** The lines that were kept, for a person. */
  story(): string {
    return this.lines
      .map(({ atMs, who, what }) => `${atMs.toFixed(1).padStart(9)} ms  ${who.padEnd(9)} ${what}`)
      .join("\n");
  }

  /** Of all lines so far. */
  get hash(): string {
    const hex = (part: number) => (part >>> 0).toString(16).padStart(8, "0");
    return hex(this.#high) + hex(this.#low);
  }

  /** Two FNV-1a lanes with different primes: collisions do not matter, differences must show. */
  #mix(text: string): void {
    for (let index = 0; index < text.length; index++) {
      const unit = text.charCodeAt(index);
      this.#high = Math.imul(this.#high ^ unit, 0x01000193);
      this.#low = Math.imul(this.#low ^ unit, 0x85ebca6b) ^ (this.#low >>> 13);
    }
  }
}

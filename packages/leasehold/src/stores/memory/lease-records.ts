/** The lease records of one namespace in memory, by resource and in the order of lists. */
import { compareUtf8 } from "../../env/index.js";
import type { LeaseRecord } from "../../lease/index.js";
import { SortedList } from "./sorted-list.js";

type Entry = readonly [resource: string, record: LeaseRecord];

export class LeaseRecords {
  readonly #records = new Map<string, LeaseRecord>();
  readonly #resources = new SortedList(compareUtf8);

  get(resource: string): LeaseRecord | undefined {
    return this.#records.get(resource);
  }

  set(resource: string, record: LeaseRecord): void {
    if (!this.#records.has(resource)) this.#resources.add(resource);
    this.#records.set(resource, record);
  }

  delete(resource: string): void {
    if (this.#records.delete(resource)) this.#resources.delete(resource);
  }

  clear(): void {
    this.#records.clear();
    this.#resources.clear();
  }

  /** In the order of the first grants. */
  [Symbol.iterator](): Iterator<Entry, undefined> {
    return this.#records[Symbol.iterator]();
  }

  /** In the order of lists, from this resource on. The records must not change meanwhile. */
  *from(resource: string): Generator<Entry, void, void> {
    for (const each of this.#resources.from(resource)) {
      const record = this.#records.get(each);
      if (record) yield [each, record];
    }
  }
}

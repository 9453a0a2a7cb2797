/**
 * Which of several servers takes writes. A URL may name them all, as in libpq:
 *
 *   postgres://user:password@a:5432,b:5432/app
 *
 *   in doubt ── each is asked at once ──▶ known: the first that takes writes
 *      ▲                                    │
 *      └── a connection failed, or a server has refused to write ──┘
 *
 * New connections go to the known one. Those to a former primary fail with their next statement, at the latest when it
 * refuses to write, and are closed.
 */
import { StoreMisconfiguredError, StoreUnavailableError } from "../../lease/index.js";
import { connectError } from "./failures.js";

/** Resolves if the server of the URL takes writes, and ends what it has opened. */
export type Probe = (url: string, over: AbortSignal) => Promise<void>;

export class Primary {
  readonly #urls: readonly string[];
  readonly #probe: Probe;
  #known: string | null;
  #finding: Promise<string> | null = null;

  constructor(urls: readonly [string, ...string[]], probe: Probe) {
    [this.#urls, this.#probe] = [urls, probe];
    this.#known = urls[0];
    if (urls.length > 1) this.doubt();
  }

  /** The URL of the server to connect to: before the first one is found, the first that was named. */
  get url(): string {
    return this.#known ?? (this.#urls[0] as string);
  }

  /** Another one may have become the primary. */
  doubt(): void {
    if (this.#urls.length > 1) this.#known = null;
  }

  /** @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED */
  async find(): Promise<void> {
    if (this.#known !== null) return;
    this.#finding ??= this.#ask().finally(() => {
      this.#finding = null;
    });
    this.#known = await this.#finding;
  }

  async #ask(): Promise<string> {
    const over = new AbortController();
    const probes = this.#urls.map(async (url) => {
      await this.#probe(url, over.signal);
      return url;
    });
    try {
      return await Promise.any(probes);
    } catch (error) {
      throw this.#explained((error as AggregateError).errors);
    } finally {
      over.abort();
    }
  }

  #explained(errors: readonly unknown[]): Error {
    const reasons = errors.map((error) => connectError(error));
    const permanent = reasons.find((reason) => reason instanceof StoreMisconfiguredError);
    if (permanent) return permanent;
    const each = reasons.map(
      ({ message }, at) => `${new URL(this.#urls[at] as string).host}: ${message}`,
    );
    const message = `none of the servers takes writes: ${each.join("; ")}`;
    return new StoreUnavailableError(message, { outcome: "none", cause: reasons[0] });
  }
}

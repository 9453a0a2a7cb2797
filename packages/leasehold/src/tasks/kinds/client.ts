/** The published kinds of one namespace, as programs use them. */
import {
  checkInteger,
  checkKnown,
  checkName,
  InvalidOptionError,
  type Page,
} from "../../core/index.js";
import type { Env } from "../../env/index.js";
import { FIRST_VERSION, LARGEST_VERSION } from "../values.js";
import { type Contract, loadJsonSchemas } from "./contract.js";
import type { KindQuery, KindStore, KindView, PublishRequest } from "./port.js";
import { retryingKinds } from "./retrying.js";

/** Called by `tasks`. Apart from the class, whose public type shows no constructor. */
export let kindsOver: (
  caller: Caller,
  store: KindStore | undefined,
  env: Env,
) => { readonly kinds: Kinds; readonly publisher: Publisher };

interface Caller {
  readonly namespace: string;
  readonly holder: string;
}
/** A definition or a handler. */
interface Defined {
  readonly kind: string;
  readonly contract?: Contract | undefined;
}
/** Publishes the kinds that want it, once for each definition. */
export interface Publisher {
  /**
   * If the store fails, it logs a warning, and the next call tries again: tasks are enqueued all the same.
   * @throws INVALID_OPTION for a schema that cannot be published, and where the store keeps none
   */
  readonly publish: (defined: Defined) => Promise<void>;
  /** The same for many, in the background: it logs what `publish` throws. */
  readonly publishAll: (all: readonly Defined[]) => void;
}

/**
 * The published kinds of one namespace: `leasehold.tasks.kinds`. A definition with `publish: true` publishes one.
 * @example
 * ```ts
 * import { connect, defineTask } from "leasehold";
 * import { z } from "zod";
 *
 * const leasehold = await connect("memory:");
 * const schema = z.object({ to: z.string() });
 * const mail = defineTask("mail", { schema, publish: true });
 * await leasehold.tasks.enqueue(mail, { to: "ada@example.com" });
 * const { items } = await leasehold.tasks.kinds.list();
 * for (const { kind, version, schema } of items) console.log(kind, version, schema);
 * console.log(await leasehold.tasks.kinds.withdraw("mail", 1));
 * await leasehold.close();
 * ```
 */
export class Kinds {
  static {
    kindsOver = (caller, store, env) => {
      const kinds = new Kinds(caller, store, env);
      const publisher: Publisher = {
        publish: (defined) => kinds.#published(defined),
        publishAll(all) {
          for (const defined of all) {
            publisher.publish(defined).catch((error: unknown) => {
              env.logger.error({ err: error, kind: defined.kind }, "could not publish a kind");
            });
          }
        },
      };
      return { kinds, publisher };
    };
  }

  readonly #caller: Caller;
  readonly #kept: KindStore | undefined;
  readonly #env: Env;
  readonly #publishing = new WeakMap<Contract, Promise<void>>();

  /** @param store undefined: it keeps none */
  private constructor({ namespace, holder }: Caller, store: KindStore | undefined, env: Env) {
    [this.#caller, this.#env] = [{ namespace, holder }, env];
    // A publication that fails keeps no task back: the next one tries again.
    const publish = (request: PublishRequest) => (store as KindStore).publish(request);
    this.#kept = store && { ...retryingKinds(async () => store, env), publish };
  }

  /**
   * Lists the published versions, by kind and version, one page per call.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async list(query: Omit<KindQuery, "namespace"> = {}): Promise<Page<KindView>> {
    checkKnown(query, { kind: true, limit: true, cursor: true });
    if (query.kind !== undefined) checkName("kind", query.kind);
    return this.#store.list({ ...query, namespace: this.#caller.namespace });
  }

  /**
   * Withdraws a version that no program publishes any more: new tasks are checked against it no longer.
   * @returns whether it was published
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async withdraw(kind: string, version: number): Promise<boolean> {
    checkName("kind", kind);
    checkInteger("version", version, FIRST_VERSION, LARGEST_VERSION);
    return this.#store.withdraw({ namespace: this.#caller.namespace, kind, version });
  }

  /** @throws INVALID_OPTION */
  get #store(): KindStore {
    if (this.#kept) return this.#kept;
    throw new InvalidOptionError(
      "this store",
      "keeps no published kinds: PostgreSQL, PGlite, memory and a server of this version keep them",
    );
  }

  async #published({ kind, contract }: Defined): Promise<void> {
    if (!contract || contract.published === null) return;
    let publishing = this.#publishing.get(contract);
    if (!publishing) {
      publishing = this.#publish(kind, contract);
      this.#publishing.set(contract, publishing);
    }
    await publishing;
  }

  async #publish(kind: string, contract: Contract): Promise<void> {
    const { namespace, holder: by } = this.#caller;
    const { version, published } = contract;
    const { schemaText } = await loadJsonSchemas();
    const schema = schemaText(published);
    try {
      const outcome = await this.#store.publish({ namespace, kind, version, schema, by });
      if (outcome.status === "failed") throw outcome.error;
      if (outcome.status === "published") return;
      const remedy = "withdraw those that no program publishes any more";
      this.#env.logger.warn({ kind, version, remedy }, "too many published kinds");
    } catch (error) {
      if (error instanceof InvalidOptionError) throw error;
      this.#publishing.delete(contract);
      this.#env.logger.warn({ err: error, kind, version }, "could not publish a kind");
    }
  }
}

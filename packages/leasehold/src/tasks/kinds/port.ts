/**
 * The port between kinds and the databases that keep what programs publish of them: a JSON Schema of the data for each
 * version. Servers check the data of new tasks against it, and programs in other languages read it.
 */
import type { CallOptions, Failed, Page } from "../../core/index.js";
import type { Json } from "../values.js";

/** A version of a kind, in a namespace. */
export interface KindKey {
  readonly namespace: string;
  readonly kind: string;
  /** 1 to 32,767. */
  readonly version: number;
}

/** Publishes the schema of a version of a kind. */
export interface PublishRequest extends KindKey {
  /** A JSON Schema, as JSON of at most {@link SCHEMA_BYTES}. */
  readonly schema: string;
  /** Who publishes it: the holder name of a client, or an operator. */
  readonly by: string;
}
/** `full`: the namespace has {@link MOST_KINDS} versions of kinds. A repeated publication writes nothing: `none`. */
export type PublishOutcome =
  | { readonly status: "published"; readonly change: "added" | "changed" | "none" }
  | { readonly status: "full" }
  | Failed;

/** What is published of a version of a kind. Times are the store's, as ISO 8601. */
export interface KindView {
  readonly kind: string;
  readonly version: number;
  /** The JSON Schema of the data. */
  readonly schema: Json;
  /** When the version was published first. */
  readonly publishedAt: string;
  /** When its schema changed last; the same as `publishedAt` if it never did. */
  readonly changedAt: string;
  /** Who published this schema. */
  readonly by: string;
}

/** Which published kinds of a namespace to list. */
export interface KindQuery {
  readonly namespace: string;
  /** Only the versions of this kind; default: of all. */
  readonly kind?: string;
  /** At most this many; default 20. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** The published kinds of a database. Reads reject with the error of the store. */
export interface KindStore {
  /** Publishes the schema of a version, in place of an earlier one. */
  publish(request: PublishRequest, options?: CallOptions): Promise<PublishOutcome>;
  /** The published schema of each key, as JSON, in their order; null: none is. */
  schemas(keys: readonly KindKey[], options?: CallOptions): Promise<readonly (string | null)[]>;
  /** By kind, then by version. */
  list(query: KindQuery): Promise<Page<KindView>>;
  /** Withdraws a version: data is checked against it no more. @returns whether it was published */
  withdraw(key: KindKey): Promise<boolean>;
}

/** The most versions of kinds that one namespace publishes. */
export const MOST_KINDS = 1_000;
/** The largest schema, in bytes of JSON. */
export const SCHEMA_BYTES = 64 * 1024;

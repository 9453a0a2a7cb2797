/**
 * Bounds on the payloads (data, output, progress and error) that one call of a store reads. Without them, a page or a
 * claim of large tasks would fill the memory of the process that reads it.
 */
import { StoreUnavailableError } from "../lease/index.js";
import type { Failed, Json, TaskView } from "./port.js";

/** A list has payloads of at most this size whole, in bytes of UTF-8. */
export const LISTED_BYTES = 1_024;
/** Of a larger payload, a list has this many characters (code points). */
export const PREVIEW_LENGTH = 200;
/** A claim returns at most this much data, in bytes of JSON as UTF-8, but always that of at least one task. */
export const CLAIMED_BYTES = 16 * 1024 * 1024;
/**
 * A batch of repeated completes returns at most this much output of each namespace, in bytes of JSON as UTF-8, but always that
 * of at least one task. Less than a claim, because few bytes ask for it: twenty requests of 7 KB together would otherwise
 * read as much as the largest claim.
 */
export const REPEATED_BYTES = 256 * 1024;

/** A store keeps the last attempts of a task: of one that is returned again and again, there is no end of them. */
export const ATTEMPTS_KEPT = 100;
/** A read of a task returns as many of its last attempts as have this much progress and errors, and at least one. */
export const ATTEMPTS_BYTES = 1024 * 1024;

/** A payload's stored text, or the first {@link PREVIEW_LENGTH} characters of one that is too large for a list. */
export interface ListedText {
  readonly text: string;
  readonly cut: boolean;
}

const encoder = new TextEncoder();
const BEGINNING = new RegExp(`^.{0,${PREVIEW_LENGTH}}`, "su");

export function listedText(text: string): ListedText {
  const cut = text.length > LISTED_BYTES || byteLength(text) > LISTED_BYTES;
  return { text: cut ? (BEGINNING.exec(text)?.[0] ?? "") : text, cut };
}

/** The last of the attempts whose texts fit into {@link ATTEMPTS_BYTES} together. */
export function fittingAttempts<
  A extends { readonly error: string | null; readonly progress: string },
>(attempts: readonly A[]): readonly A[] {
  let bytes = 0;
  const tooLarge = attempts.findLastIndex(({ error, progress }, index) => {
    bytes += byteLength(progress) + byteLength(error ?? "");
    return bytes > ATTEMPTS_BYTES && index < attempts.length - 1;
  });
  return attempts.slice(tooLarge + 1);
}

export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

type Payloads = Pick<
  TaskView,
  "data" | "dataPreview" | "output" | "outputPreview" | "progress" | "progressPreview" | "error"
>;

/** The payloads of a task in a list. A null text means the JSON value null, or no error. */
export function listedPayloads(
  texts: Readonly<Record<"data" | "output" | "progress" | "error", ListedText | null>>,
): Payloads {
  const { data, output, progress, error } = texts;
  return {
    ...(data?.cut ? { dataPreview: previewOf(data) } : { data: valueOf(data) }),
    ...(output?.cut ? { outputPreview: previewOf(output) } : { output: valueOf(output) }),
    ...(progress?.cut ? { progressPreview: previewOf(progress) } : { progress: valueOf(progress) }),
    error: error && (error.cut ? previewOf(error) : error.text),
  };
}

/** The error of a task that is listed without its payloads. */
export function listedError(error: string | null): string | null {
  if (error === null) return null;
  const listed = listedText(error);
  return listed.cut ? previewOf(listed) : error;
}

function previewOf({ text }: ListedText): string {
  return `${text}…`;
}

function valueOf(listed: ListedText | null): Json {
  return listed && (JSON.parse(listed.text) as Json);
}

/** Counts, for one batch of completes, the stored outputs that it returns. */
export class RepeatedOutputs {
  readonly #bytes = new Map<string, number>();

  /** Whether one more is too much together with those before it, {@link REPEATED_BYTES}. */
  exceeds(namespace: string, ownBytes: number): boolean {
    const bytes = (this.#bytes.get(namespace) ?? 0) + ownBytes;
    this.#bytes.set(namespace, bytes);
    return bytes > REPEATED_BYTES && bytes > ownBytes;
  }
}

/** The outcome of a repeated complete whose output exceeds the bound together with those before it. */
export function tooMuchOutput(): Failed {
  const message =
    "the outputs of this batch are too large for one answer: repeat this request in another batch";
  const error = new StoreUnavailableError(message, { outcome: "none" });
  return { status: "failed", applied: "no", retryable: true, error };
}

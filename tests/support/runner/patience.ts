/**
 * How long tests wait for a condition, unless they say it. The runner's default of a second fails on a machine that is
 * busy. The config has the same time for `expect.poll`.
 */
import { vi } from "vitest";

/** A condition that is still false after this time never becomes true. */
const PATIENCE_MS = 60_000;

type Options = number | { readonly timeout?: number } | undefined;
const patient = (options: Options) =>
  typeof options === "number" ? options : { timeout: PATIENCE_MS, ...options };

/** Files share workers, and with them the runner's object. */
const done = Symbol.for("leasehold.patience");
if (!(done in vi)) {
  const original = { waitFor: vi.waitFor, waitUntil: vi.waitUntil };
  const waitFor: typeof vi.waitFor = (callback, options) =>
    original.waitFor(callback, patient(options));
  const waitUntil: typeof vi.waitUntil = (callback, options) =>
    original.waitUntil(callback, patient(options));
  Object.assign(vi, { [done]: true, waitFor, waitUntil });
}

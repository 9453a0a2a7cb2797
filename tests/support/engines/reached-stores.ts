/** Stores that are reached by a URL with certificates or logins: that they serve, and how they are refused. */
import { expect } from "vitest";
import { connect } from "../../../packages/leasehold/src/index.js";

/** The error with which the store of this URL does not open. */
export async function refusal(
  url: string,
): Promise<{ code: string; message: string; stack: string }> {
  const opening = connect(url, { connectTimeoutMs: 3_000 });
  const error: unknown = await opening.then((opened) => opened.close()).catch((error) => error);
  if (error instanceof Error) return error as Error & { code: string; stack: string };
  throw new Error("it was opened");
}

/** Acquires, waits, is woken, renews and lists, as applications do. */
export async function works(
  url: string,
  ttlMs: number,
  options: { readonly namespace?: string } = {},
): Promise<void> {
  const [one, other] = [await connect(url, options), await connect(url, options)];
  const lease = await one.acquire("report", { ttlMs });
  const waiting = other.acquire("report", { ttlMs });
  await lease.renew();
  await lease.release();
  const next = await waiting;
  expect(next.token).toBeGreaterThan(lease.token);
  expect((await one.list()).items).toMatchObject([{ resource: "report", state: "live" }]);
  await next.release();
  await Promise.all([one.close(), other.close()]);
}

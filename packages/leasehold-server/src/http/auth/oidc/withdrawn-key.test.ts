import { createLocalJWKSet, exportJWK, generateKeyPair, SignJWT } from "jose";
import { expect, test, vi } from "vitest";
import type { Issuer } from "./issuer.js";
import { Tokens } from "./tokens.js";

type Key = Parameters<typeof exportJWK>[0];

const ISSUER = "https://id.example";

test("a token whose key is withdrawn during its check is refused afterwards", async () => {
  const [old, next] = [await generateKeyPair("ES256"), await generateKeyPair("ES256")];
  const setOf = async (kid: string, key: Key) =>
    createLocalJWKSet({ keys: [{ ...(await exportJWK(key)), kid, alg: "ES256" }] });
  const signed = (kid: string, key: Key) =>
    new SignJWT({})
      .setProtectedHeader({ alg: "ES256", kid })
      .setIssuer(ISSUER)
      .setAudience("leases")
      .setSubject("someone")
      .setExpirationTime("1h")
      .sign(key);
  const withdrawn = await signed("old", old.privateKey);
  const current = await signed("next", next.privateKey);
  let keys = await setOf("old", old.publicKey);
  const after = await setOf("next", next.publicKey);
  const published = async () => ({ keys, atMs: 0 });
  const issuer = { url: ISSUER, published, publishedSince: published } as unknown as Issuer;
  const clock = { wall: () => Date.now(), monotonic: () => 0 };
  const options = { audience: "leases", leewayMs: 0 };
  const tokens = new Tokens(issuer, options, { clock } as ConstructorParameters<typeof Tokens>[2]);

  const { subtle } = crypto;
  const verify = subtle.verify.bind(subtle);
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  let goOn = () => {};
  const going = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const spy = vi.spyOn(subtle, "verify").mockImplementationOnce(async (...args) => {
    begin();
    await going;
    return verify(...args);
  });
  const checked = tokens.verify(withdrawn);
  await begun;
  keys = after;
  await tokens.verify(current);
  goOn();
  await checked;
  spy.mockRestore();

  await expect(tokens.verify(withdrawn)).rejects.toMatchObject({ status: 401 });
});

/**
 * Checkpoints of the audit as files: unsigned, or signed with Ed25519 or HMAC-SHA-256.
 *
 * A signed checkpoint is one line of JSON. The signature covers {@link signedText}, which has a line for each
 * field, so that openssl can check it without knowing how JSON orders or escapes.
 */
import {
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
  timingSafeEqual,
  verify,
} from "node:crypto";
import type { Checkpoint } from "leasehold/internal";
import { UsageError } from "./failures.js";
import { readText } from "./files.js";

export type Algorithm = "Ed25519" | "HMAC-SHA-256";

export interface SignedCheckpoint extends Checkpoint {
  readonly version: 1;
  /** When it was signed, by the clock of the signing machine, ISO 8601. */
  readonly at: string;
  readonly algorithm: Algorithm;
  /** 16 hex digits that name the key. They reveal nothing of a secret one. */
  readonly keyId: string;
  /** Base64. */
  readonly signature: string;
}

/** Signs checkpoints. */
export interface Signer {
  readonly algorithm: Algorithm;
  readonly keyId: string;
  sign(text: string): Buffer;
}

/** Checks the signatures of one key. */
export interface Verifier {
  readonly algorithm: Algorithm;
  readonly keyId: string;
  verify(text: string, signature: Buffer): boolean;
}

/** The two kinds of keys, as options name them. */
export interface KeyFiles {
  /** A key of Ed25519 as PEM: the private one to sign, the public one to verify. */
  readonly key: string | undefined;
  /** A secret of HMAC-SHA-256. */
  readonly secret: string | undefined;
}

/** What the signature of a checkpoint covers. */
function signedText(checkpoint: Omit<SignedCheckpoint, "signature" | "version">): string {
  const { seq, hash, at, algorithm, keyId } = checkpoint;
  const lines = ["leasehold audit checkpoint 1", seq, hash, at, algorithm, keyId];
  return lines.map((line) => `${line}\n`).join("");
}

/** Signs the end of the chain, `head`, as read at `at`. */
export function signed(head: Checkpoint, at: Date, signer: Signer): SignedCheckpoint {
  const { algorithm, keyId } = signer;
  const fields = { seq: head.seq, hash: head.hash, at: at.toISOString(), algorithm, keyId };
  const signature = signer.sign(signedText(fields)).toString("base64");
  return { version: 1, ...fields, signature };
}

/** Null if the signature is of this key, otherwise what is wrong. */
export function wrongSignature(checkpoint: SignedCheckpoint, verifier: Verifier): string | null {
  const { algorithm, keyId } = checkpoint;
  if (algorithm !== verifier.algorithm) {
    return `the checkpoint is signed with ${algorithm}, not with ${verifier.algorithm}`;
  }
  if (keyId !== verifier.keyId) {
    return `the checkpoint is signed by the key ${keyId}, not by ${verifier.keyId}`;
  }
  const fits = verifier.verify(signedText(checkpoint), Buffer.from(checkpoint.signature, "base64"));
  return fits ? null : "the signature of the checkpoint is not of its content";
}

/**
 * The signer of the options; undefined: none is named.
 * @param names the two options, for messages
 * @throws UsageError
 */
export async function signerOf(files: KeyFiles, names: KeyNames): Promise<Signer | undefined> {
  checkOne(files, names);
  if (files.secret !== undefined) return macOf(files.secret, names.secret);
  if (files.key === undefined) return undefined;
  const pem = await readText(files.key, names.key);
  const key = parsed(() => createPrivateKey(pem), files.key, names.key, "private");
  const keyId = idOf(createPublicKey(key));
  return { algorithm: "Ed25519", keyId, sign: (text) => sign(null, Buffer.from(text), key) };
}

/**
 * As {@link signerOf}, to verify.
 * @throws UsageError
 */
export async function verifierOf(files: KeyFiles, names: KeyNames): Promise<Verifier | undefined> {
  checkOne(files, names);
  if (files.secret !== undefined) return macOf(files.secret, names.secret);
  if (files.key === undefined) return undefined;
  const pem = await readText(files.key, names.key);
  // From a private key, createPublicKey would take the public one.
  if (/PRIVATE KEY/.test(pem)) {
    throw new UsageError(`${names.key}: ${files.key} has a private key: name the public one`);
  }
  const key = parsed(() => createPublicKey(pem), files.key, names.key, "public");
  return {
    algorithm: "Ed25519",
    keyId: idOf(key),
    verify: (text, signature) => verify(null, Buffer.from(text), key, signature),
  };
}

type KeyNames = { readonly key: string; readonly secret: string };

function checkOne({ key, secret }: KeyFiles, names: KeyNames): void {
  if (key === undefined || secret === undefined) return;
  throw new UsageError(`${names.key} or ${names.secret}? name one of them`);
}

async function macOf(file: string, name: string): Promise<Signer & Verifier> {
  const secret = (await readText(file, name)).trim();
  if (secret.length < 32) {
    throw new UsageError(`${name}: ${file} must have 32 characters or more`);
  }
  const mac = (text: string) => createHmac("sha256", secret).update(text).digest();
  return {
    algorithm: "HMAC-SHA-256",
    keyId: mac("leasehold audit key").toString("hex").slice(0, 16),
    sign: mac,
    verify: (text, signature) => {
      const expected = mac(text);
      return signature.length === expected.length && timingSafeEqual(signature, expected);
    },
  };
}

/** The first 16 hex digits of the SHA-256 of the public key's DER. */
function idOf(key: KeyObject): string {
  const der = key.export({ type: "spki", format: "der" });
  return createHash("sha256").update(der).digest("hex").slice(0, 16);
}

function parsed(parse: () => KeyObject, file: string, name: string, kind: string): KeyObject {
  let key: KeyObject | null = null;
  try {
    key = parse();
  } catch {
    // Reported below. The message of the parser could show a part of the file.
  }
  if (key?.asymmetricKeyType === "ed25519") return key;
  throw new UsageError(
    `${name}: ${file} has no ${kind} key of Ed25519 in PEM without a passphrase`,
  );
}

/**
 * The last line of an export, a signed checkpoint, or `{"seq": 12, "hash": "..."}` alone. An entry has these two as
 * well: an export that ends with one was cut off, and would prove less than it seems to.
 */
export async function readCheckpoint(file: string): Promise<Checkpoint | SignedCheckpoint> {
  const text = await readText(file, "--checkpoint");
  try {
    const line = JSON.parse(text.trimEnd().split("\n").at(-1) ?? "") as {
      readonly checkpoint?: Partial<SignedCheckpoint>;
    } & Partial<SignedCheckpoint>;
    const { seq, hash, ...others } = line.checkpoint ?? line;
    if (Number.isSafeInteger(seq) && /^[0-9a-f]{64}$/.test(hash ?? "")) {
      const checkpoint = { seq: seq as number, hash: hash as string };
      if (Object.keys(others).length === 0) return checkpoint;
      const { version, at, algorithm, keyId, signature, ...unknown } = others;
      const texts = [at, algorithm, keyId, signature].every((field) => typeof field === "string");
      if (version === 1 && texts && Object.keys(unknown).length === 0) {
        return { ...checkpoint, ...others };
      }
    }
  } catch {
    // Reported below.
  }
  throw new UsageError(
    `--checkpoint: ${file} does not end with a checkpoint: an export without its last line was cut off`,
  );
}

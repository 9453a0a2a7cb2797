/**
 * What a key is called in Kubernetes. An object's name is a DNS-1123 subdomain of at most 253
 * characters, so not every resource can be one:
 *
 *   default, "my-controller"   my-controller               as it is: what client-go users call it
 *   default, "Orders/42"       orders-42--<32 hex digits>  readable, told apart by a digest of the key
 *   "shop", "orders"           shop-orders--<32 hex digits>
 *
 * The true names stand in annotations. A resource that looks as if it had a digest gets one too, so
 * that no two keys share a name; should two digests ever agree, the annotations show it.
 */

import type { Key } from "../../core/index.js";
import { digestOf } from "../../env/index.js";

/** The namespace whose resources share their names with the Lease objects of other clients. */
export const SHARED_NAMESPACE = "default";

const LONGEST_NAME = 253;
const LONGEST_LABEL = 63;
const DIGEST_DIGITS = 32;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL_VALUE = /^[a-z0-9]([-\w.]*[a-z0-9])?$/i;
const WITH_DIGEST = new RegExp(`--[0-9a-f]{${DIGEST_DIGITS}}$`);

export function objectNameOf({ namespace, resource }: Key): string {
  if (namespace === SHARED_NAMESPACE && isPlainName(resource)) return resource;
  const readable = namespace === SHARED_NAMESPACE ? resource : `${namespace}-${resource}`;
  return withDigest(readable, JSON.stringify([namespace, resource]), LONGEST_NAME);
}

/** Whether an object of this name without annotations of ours is the resource of the same name. */
export function isPlainName(name: string): boolean {
  return name.length <= LONGEST_NAME && SUBDOMAIN.test(name) && !WITH_DIGEST.test(name);
}

/** By which the objects of a namespace of ours are listed. */
export function labelOf(namespace: string): string {
  const plain =
    namespace.length <= LONGEST_LABEL &&
    LABEL_VALUE.test(namespace) &&
    !WITH_DIGEST.test(namespace);
  return plain ? namespace : withDigest(namespace, namespace, LONGEST_LABEL);
}

function withDigest(readable: string, identifying: string, longest: number): string {
  const digest = digestOf(identifying).slice(0, DIGEST_DIGITS);
  const slug = readable
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, longest - DIGEST_DIGITS - 2)
    .replace(/^-+|-+$/g, "");
  return `${slug || "lease"}--${digest}`;
}

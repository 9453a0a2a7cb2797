/**
 * Maps keys to names of Kubernetes objects. A name is a DNS-1123 subdomain of at most 253 characters,
 * so not every resource can be one:
 *
 *   default, "my-controller"   my-controller               unchanged: the name that client-go users give it
 *   default, "Orders/42"       orders-42--<32 hex digits>  readable, made unique by a digest of the key
 *   "shop", "orders"           shop-orders--<32 hex digits>
 *
 * Annotations carry the original names. A resource that looks as if it had a digest gets one too, so no
 * two keys share a name. If two digests collide, the annotations reveal it.
 */

import { digestOf } from "../../env/index.js";
import type { Key } from "../../lease/index.js";

/** In this namespace, resources share their names with the Lease objects of other clients. */
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

/**
 * Returns whether an object of this name that has no Leasehold annotations, such as one of client-go, is the
 * lease on the resource of the same name.
 */
export function isPlainName(name: string): boolean {
  return name.length <= LONGEST_NAME && SUBDOMAIN.test(name) && !WITH_DIGEST.test(name);
}

/** The label value that selects the objects of a Leasehold namespace. */
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

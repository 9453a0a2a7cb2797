/** The requests of a batch by their keys. */
import type { Key } from "../lease/index.js";
import type { KeyToLoad } from "./engine.js";
import { allDiffer } from "./rounds.js";

export interface Request extends Key {
  /** Undefined: it names no grant. */
  readonly leaseId?: string;
}

/** A request of a batch. */
export interface Entry<Asked> {
  readonly request: Asked;
  readonly index: number;
}

/** The requests for one key. */
export type Group<Asked> = readonly [Entry<Asked>, ...Entry<Asked>[]];

/** Whether no two requests are for the same key. */
export function haveEachKeyOnce(requests: readonly Request[]): boolean {
  return (
    requests.length === 1 ||
    allDiffer(requests.map(({ resource }) => resource)) ||
    allDiffer(requests.map(nameOf))
  );
}

/** Namespaces contain no such character. */
export function nameOf({ namespace, resource }: Request): string {
  return `${namespace}\0${resource}`;
}

export function byKey<Asked extends Request>(
  open: readonly Entry<Asked>[],
): readonly Group<Asked>[] {
  const [only] = open;
  if (only && open.length === 1) return [[only]];
  const groups = new Map<string, [Entry<Asked>, ...Entry<Asked>[]]>();
  for (const entry of open) {
    const name = nameOf(entry.request);
    const group = groups.get(name);
    if (group) group.push(entry);
    else groups.set(name, [entry]);
  }
  return [...groups.values()];
}

export function toLoad<Asked extends Request>(group: Group<Asked>): KeyToLoad {
  const { namespace, resource } = group[0].request;
  const ids: string[] = [];
  for (const { request } of group) if (request.leaseId !== undefined) ids.push(request.leaseId);
  return { namespace, resource, leaseIds: ids.length > 1 ? [...new Set(ids)] : ids };
}

/** API keys in this process's memory. */
import {
  type ApiKey,
  type ApiKeyActs,
  type ApiKeyRecord,
  type ApiKeyStore,
  MOST_KEYS,
  type NewApiKey,
  NOTE_USED_EVERY_MS,
  unknownApiKeyCursor,
} from "../../control/index.js";

export interface StoredKey extends NewApiKey {
  /** Counts all keys ever added; the cursor of a page. */
  readonly order: number;
  readonly createdAtMs: number;
  readonly expiresAtMs: number | null;
  readonly revoked: boolean;
  /** The id of the key that replaces it. */
  readonly successor?: string;
  readonly lastUsedAtMs: number | null;
}

interface State {
  /** In insertion order. */
  readonly keys: Map<string, StoredKey>;
  keysAdded: number;
  nowMs(): number;
}

export function memoryKeys(state: State): ApiKeyStore & ApiKeyActs {
  const { keys } = state;
  const leftMs = ({ expiresAtMs }: StoredKey) => (expiresAtMs ?? Infinity) - state.nowMs();
  const isGood = (key: StoredKey) => leftMs(key) > 0;
  const goodIn = (namespace: string): number => {
    const nowMs = state.nowMs();
    let good = 0;
    for (const key of keys.values()) {
      if (key.namespace === namespace && (key.expiresAtMs ?? Infinity) > nowMs) good += 1;
    }
    return good;
  };
  const shown = (key: StoredKey): ApiKey => {
    const { order, digest, lifetimeMs, createdAtMs, expiresAtMs, successor, ...more } = key;
    const { lastUsedAtMs, queues = [], ...rest } = more;
    return {
      ...rest,
      queues,
      lastUsedAt: lastUsedAtMs === null ? null : new Date(lastUsedAtMs).toISOString(),
      createdAt: new Date(createdAtMs).toISOString(),
      expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs).toISOString(),
      remainingMs: expiresAtMs === null ? null : Math.max(0, Math.ceil(leftMs(key))),
    };
  };
  const put = (key: StoredKey): ApiKey => {
    keys.set(key.id, key);
    return shown(key);
  };
  const insert = (key: NewApiKey, most = MOST_KEYS): ApiKey | null => {
    if (goodIn(key.namespace) >= most) return null;
    const createdAtMs = state.nowMs();
    const expiresAtMs = key.lifetimeMs === null ? null : createdAtMs + key.lifetimeMs;
    state.keysAdded += 1;
    const times = { createdAtMs, expiresAtMs, lastUsedAtMs: null };
    return put({ ...key, ...times, order: state.keysAdded, revoked: false });
  };
  const end = (key: StoredKey, inMs: number): ApiKey => {
    const expiresAtMs = Math.min(key.expiresAtMs ?? Infinity, state.nowMs() + inMs);
    return put({ ...key, expiresAtMs, revoked: key.revoked || (inMs === 0 && isGood(key)) });
  };
  return {
    async find(id): Promise<ApiKeyRecord | null> {
      const key = keys.get(id);
      return key ? { ...shown(key), digest: key.digest } : null;
    },
    async list({ namespace, limit = 100, cursor }) {
      if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) unknownApiKeyCursor();
      const before = cursor === undefined ? Infinity : Number(cursor);
      const found = [...keys.values()].filter(
        (key) => key.order < before && (namespace === null || key.namespace === namespace),
      );
      const page = found.slice(-limit).toReversed();
      const more = found.length > page.length;
      return { items: page.map(shown), nextCursor: more ? String(page.at(-1)?.order) : null };
    },
    any: async () => [...keys.values()].some(isGood),
    existed: async () => state.keysAdded > 0,
    async noteUsed(ids) {
      const nowMs = state.nowMs();
      for (const id of ids) {
        const key = keys.get(id);
        if (!key || nowMs - (key.lastUsedAtMs ?? -Infinity) < NOTE_USED_EVERY_MS) continue;
        keys.set(id, { ...key, lastUsedAtMs: nowMs });
      }
    },
    async collect(olderThanMs) {
      const old = [...keys.values()].filter((key) => leftMs(key) <= -olderThanMs);
      for (const { id } of old) keys.delete(id);
      return old.length;
    },
    add: async (key) => insert(key),
    async rotate({ namespace, id, overlapMs, successor }) {
      const key = keys.get(id);
      if (key?.namespace !== namespace) return { status: "notGood" };
      if (key.successor !== undefined) {
        return { status: "rotatedBefore", successor: key.successor };
      }
      if (!isGood(key)) return { status: "notGood" };
      const { name, role, prefixes, queues, createdAtMs, expiresAtMs } = key;
      const lifetimeMs = expiresAtMs === null ? null : expiresAtMs - createdAtMs;
      const order = {
        ...successor,
        namespace,
        name,
        role,
        prefixes,
        queues: queues ?? [],
        lifetimeMs,
      };
      // A key that ends now makes room for its successor.
      const made = insert(order, overlapMs === 0 ? MOST_KEYS + 1 : MOST_KEYS);
      if (!made) return { status: "full" };
      return {
        status: "rotated",
        key: made,
        old: end({ ...key, successor: successor.id }, overlapMs),
      };
    },
    async revoke(namespace, id) {
      const key = keys.get(id);
      return key?.namespace === namespace ? end(key, 0) : null;
    },
  };
}

/** The published kinds in PostgreSQL. */
import type { CallOptions, Page } from "../../core/index.js";
import { kindCursor, placeOfCursor } from "../../tasks/kinds/cursor.js";
import {
  type KindKey,
  type KindQuery,
  type KindStore,
  type KindView,
  MOST_KINDS,
  type PublishOutcome,
  type PublishRequest,
} from "../../tasks/kinds/port.js";
import type { Json } from "../../tasks/port.js";
import { failedOutcome } from "./failures.js";
import {
  type KindRow,
  LIST_KINDS,
  PUBLISH,
  type PublishedRow,
  SCHEMAS,
  type SchemaRow,
  WITHDRAW,
} from "./kind-statements.js";
import type { Connections } from "./shared.js";
import { isoOf } from "./views.js";

export class PostgresKindStore implements KindStore {
  readonly #backend: Connections["backend"];

  constructor({ backend }: Pick<Connections, "backend">) {
    this.#backend = backend;
  }

  async publish(request: PublishRequest, options?: CallOptions): Promise<PublishOutcome> {
    const { namespace, kind, version, schema, by } = request;
    const values = [namespace, kind, version, schema, by, MOST_KINDS];
    try {
      const [row] = await this.#backend.general.query<PublishedRow>(PUBLISH, values, options);
      if (row?.written) return { status: "published", change: row.before ? "changed" : "added" };
      // Not written and room: another process published the same at the same time.
      return row?.room ? { status: "published", change: "none" } : { status: "full" };
    } catch (error) {
      return failedOutcome(error);
    }
  }

  async schemas(
    keys: readonly KindKey[],
    options?: CallOptions,
  ): Promise<readonly (string | null)[]> {
    const values = [
      keys.map(({ namespace }) => namespace),
      keys.map(({ kind }) => kind),
      keys.map(({ version }) => version),
    ];
    const found: (string | null)[] = keys.map(() => null);
    const rows = await this.#backend.general.query<SchemaRow>(SCHEMAS, values, options);
    for (const { n, schema } of rows) found[n - 1] = schema;
    return found;
  }

  async list({ namespace, kind, limit = 20, cursor }: KindQuery): Promise<Page<KindView>> {
    const after = placeOfCursor(cursor);
    const values = [namespace, kind ?? null, after.kind, after.version, limit + 1];
    const rows = await this.#backend.general.query<KindRow>(LIST_KINDS, values);
    const page = rows.slice(0, limit);
    const last = rows.length > limit ? page.at(-1) : undefined;
    return { items: page.map(viewOf), nextCursor: last ? kindCursor(last) : null };
  }

  async withdraw({ namespace, kind, version }: KindKey): Promise<boolean> {
    const values = [namespace, kind, version];
    return (await this.#backend.general.query(WITHDRAW, values)).length > 0;
  }
}

function viewOf({ schema, publishedAt, changedAt, ...row }: KindRow): KindView {
  const { kind, version, by } = row;
  return {
    kind,
    version,
    schema: JSON.parse(schema) as Json,
    publishedAt: isoOf(publishedAt),
    changedAt: isoOf(changedAt),
    by,
  };
}

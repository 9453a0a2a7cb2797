/** The statements of published kinds in PostgreSQL. */
import { type Call, sql } from "./postgres-statements.js";

const key = { namespace: "default", kind: "invoice", version: 1 };
const ROOM = [{ written: true, before: false, room: true }];

export const KIND_CALLS: readonly Call[] = [
  [
    ({ kinds }) => kinds.publish({ ...key, schema: "{}", by: "web-1" }),
    sql(
      "kind-publish",
      "Publishes the schema of a version. A repetition writes nothing.",
      "namespace kind version schema publishedBy mostKinds",
      ROOM,
    ),
  ],
  [
    ({ kinds }) => kinds.schemas([key]),
    sql("kind-schemas", "Reads the schemas of versions.", "namespaces kinds versions"),
  ],
  [
    ({ kinds }) => kinds.list({ namespace: "default" }),
    sql(
      "kind-list",
      "Reads a page of the published versions, by kind and version.",
      "namespace kind afterKind afterVersion limit",
    ),
  ],
  [
    ({ kinds }) => kinds.withdraw(key),
    sql("kind-withdraw", "Withdraws a version.", "namespace kind version", [{ withdrawn: 1 }]),
  ],
];

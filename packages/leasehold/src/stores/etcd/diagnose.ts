/** Checks for cluster states that could stop etcd from granting leases. */
import type { Diagnosis } from "../source.js";
import type { EtcdClient } from "./connection.js";
import { ALARM_GET } from "./connection-api.js";
import { CallFailure } from "./failures.js";
import { recordFolder } from "./keys.js";

/** The default quota is 2 GiB; at the quota etcd rejects writes. */
const LARGE_BYTES = 1.5 * 2 ** 30;
/** With fewer revisions there is nothing to compact yet. */
const MANY_REVISIONS = 100_000;

/** @param prefix of the keys that the user may read */
export async function diagnoseEtcd(
  client: EtcdClient,
  prefix: string,
): Promise<readonly Diagnosis[]> {
  const [status, { alarms = [] }] = await Promise.all([
    client.call({ method: "Status", body: {}, repeatable: true }),
    client.call({ method: "Alarm", body: { action: ALARM_GET }, repeatable: true }),
  ]);
  const bytes = Number(status.dbSize ?? 0);
  const revision = Number(status.header?.revision ?? 0);
  const isCompacted =
    revision < MANY_REVISIONS || (await wasCompacted(client, recordFolder(prefix)));
  const names = alarms.map(({ alarm = "unknown" }) => alarm).join(", ");
  return [
    { what: "version", value: status.version ?? "unknown", verdict: "fine", remedy: null },
    names === ""
      ? { what: "alarms", value: "none", verdict: "fine", remedy: null }
      : {
          what: "alarms",
          value: names,
          verdict: "wrong",
          remedy: "compact, defragment, then: etcdctl alarm disarm",
        },
    bytes < LARGE_BYTES
      ? { what: "dbSize", value: `${bytes} bytes`, verdict: "fine", remedy: null }
      : {
          what: "dbSize",
          value: `${bytes} bytes`,
          verdict: "doubtful",
          remedy: "at the quota (2 GiB by default) nothing is granted: etcdctl defrag",
        },
    isCompacted
      ? { what: "compaction", value: `revision ${revision}`, verdict: "fine", remedy: null }
      : {
          what: "compaction",
          value: `${revision} revisions kept`,
          verdict: "doubtful",
          remedy: "each grant and renewal adds to them: --auto-compaction-retention=1h",
        },
  ];
}

/**
 * etcd does not expose its flags. Whether it still has the first revision shows whether compaction
 * runs.
 */
async function wasCompacted(client: EtcdClient, key: string): Promise<boolean> {
  try {
    await client.call({ method: "Range", body: { key, revision: "1" }, repeatable: true });
    return false;
  } catch (error) {
    if (error instanceof CallFailure && error.reason === "compacted") return true;
    throw error;
  }
}

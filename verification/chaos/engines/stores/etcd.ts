/** etcd, a cluster of three. */
import { setTimeout as delay } from "node:timers/promises";
import {
  type EtcdServer,
  missingEtcd,
  startEtcdCluster,
} from "../../../../tests/support/engines/etcd-engine.js";
import { engine, whileSo } from "../faults/engine.js";
import { membersKinds } from "../faults/members.js";
import type { Engine, Kind, StoreSettings } from "../site.js";

interface Status {
  readonly header: { readonly member_id: string; readonly revision: string };
  readonly leader?: string;
  readonly raftTerm?: string;
  readonly version: string;
}

export const etcd: StoreSettings = {
  name: "etcd",
  ttlMs: 2_000,
  lifeMs: 2_000,
  epsilonMs: 2_000,
  deadWaiter: { ticketMs: 9_000, costMs: 2_500 },
  missing: missingEtcd,
  async open(): Promise<Engine> {
    const members = await startEtcdCluster(3);
    const { version } = await ask<Status>(members[0]!, "maintenance/status");
    return {
      version: `etcd ${version}, ${members.length} members`,
      kinds: etcdKinds(members),
      epoch: async () => (await ask<Status>(members[0]!, "maintenance/status")).raftTerm ?? "",
      portsFor: () => members.map(({ port }) => port),
      urlOf: (ports) => `etcd://${ports.map((port) => `127.0.0.1:${port}`).join(",")}`,
      async remove() {
        await Promise.all(members.map((member) => member.remove()));
      },
    };
  },
};

async function ask<T>({ port }: EtcdServer, path: string, body: object = {}): Promise<T> {
  const answer = await fetch(`http://127.0.0.1:${port}/v3/${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(5_000),
  });
  return (await answer.json()) as T;
}

async function isLeader(member: EtcdServer): Promise<boolean> {
  const { header, leader } = await ask<Status>(member, "maintenance/status");
  return leader === header.member_id;
}

function etcdKinds(members: readonly EtcdServer[]): Kind[] {
  return [
    ...membersKinds("etcd", members, isLeader),
    engine("etcd's log compacted", async ({ ttlMs }) => {
      for (let times = 0; times < 3; times += 1) {
        const { header } = await ask<Status>(members[0]!, "maintenance/status");
        await ask(members[0]!, "kv/compaction", { revision: header.revision, physical: true });
        await delay(ttlMs / 3);
      }
      return true;
    }),
    whileSo(
      "etcd's leadership moved",
      async () => {
        const statuses = await Promise.all(
          members.map((one) => ask<Status>(one, "maintenance/status")),
        );
        const at = statuses.findIndex(({ header, leader }) => leader === header.member_id);
        const next = statuses[(at + 1) % statuses.length]!;
        await ask(members[at]!, "maintenance/transfer-leadership", {
          targetID: next.header.member_id,
        });
      },
      async () => {},
    ),
  ];
}

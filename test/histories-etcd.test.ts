/** A share of `npm run histories -- --target etcd`. */
import { afterAll, it } from "vitest";
import { describeEtcd } from "./support/etcd-engine.js";
import { makeHistories } from "./support/history-campaign.js";
import { expectRightHistories } from "./support/history-share.js";
import { onEtcd } from "./support/history-target-etcd.js";
import { endAll } from "./support/processes.js";

describeEtcd("histories on etcd", () => {
  afterAll(() => endAll());

  it("are right through the fault proxy", () =>
    onEtcd((target) =>
      expectRightHistories((options) => makeHistories(target, options), {
        count: 5,
        requests: 40,
      }),
    ));
});

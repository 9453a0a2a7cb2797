/** A share of `npm run histories -- --target kubernetes`. */
import { it } from "vitest";
import { makeHistories } from "./support/history-campaign.js";
import { expectRightHistories } from "./support/history-share.js";
import { onKubernetes } from "./support/history-target-kubernetes.js";

it("are right on Kubernetes through the fault proxy", () =>
  onKubernetes((target) =>
    expectRightHistories((options) => makeHistories(target, options), { count: 4, requests: 60 }),
  ));

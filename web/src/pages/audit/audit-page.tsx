import { PageHead } from "../../ui/panel.js";

export function AuditPage() {
  return <PageHead title="Audit" />;
}

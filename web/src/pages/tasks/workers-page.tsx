import { PageHead } from "../../ui/panel.js";

export function WorkersPage() {
  return <PageHead title="Workers" />;
}

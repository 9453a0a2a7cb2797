import { PageHead } from "../../ui/panel.js";

export function ResourcePage() {
  return <PageHead title="Resource" />;
}

/**
 * Shows an app in the element `root` of its page. An app imports it first, so that the libraries come in the same order in
 * each app: their chunk is then one file for all.
 */
import type { ReactNode } from "react";
import { createRoot } from "react-dom/client";
import "./styles.css";

export function render(app: ReactNode): void {
  const root = document.getElementById("root");
  if (root) createRoot(root).render(app);
}

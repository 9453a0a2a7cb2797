import DefaultTheme from "vitepress/theme";
import Simulator from "./Simulator.vue";
import TtlCalculator from "./TtlCalculator.vue";
import "./style.css";

/** @type {import("vitepress").Theme} */
export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component("Simulator", Simulator);
    app.component("TtlCalculator", TtlCalculator);
  },
};

// What Grafana does between data and drawing: transformations, field configuration, overrides. All of
// it is Grafana's own code; here it is only told which settings and transformations there are.

import {
  applyFieldOverrides,
  displayNameOverrideProcessor,
  identityOverrideProcessor,
  numberOverrideProcessor,
  PanelPlugin,
  standardEditorsRegistry,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  thresholdsOverrideProcessor,
  transformDataFrame,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';

const STANDARD = {
  unit: unitOverrideProcessor,
  min: numberOverrideProcessor,
  max: numberOverrideProcessor,
  decimals: numberOverrideProcessor,
  displayName: displayNameOverrideProcessor,
  thresholds: thresholdsOverrideProcessor,
  mappings: valueMappingsOverrideProcessor,
  color: identityOverrideProcessor,
  noValue: identityOverrideProcessor,
  links: identityOverrideProcessor,
};
const CUSTOM = [
  'align', 'axisLabel', 'axisPlacement', 'axisSoftMax', 'cellOptions', 'drawStyle', 'fillOpacity', 'gradientMode',
  'hideFrom', 'inspect', 'lineInterpolation', 'lineStyle', 'lineWidth', 'pointSize',
  'scaleDistribution', 'showPoints', 'spanNulls', 'stacking', 'thresholdsStyle', 'width',
];
const registries = new Map();

/** Fill Grafana's registries; once, before anything is drawn. */
export function prepare() {
  standardEditorsRegistry.setInit(() => []);
  standardFieldConfigEditorRegistry.setInit(() =>
    Object.entries(STANDARD).map(([id, process]) => ({ ...setting(id), process, settings: {} }))
  );
  const transformers = new Map(Object.values(standardTransformers).map((one) => [one.id, one]));
  standardTransformersRegistry.setInit(() =>
    [...transformers.values()].map((one) => ({
      id: one.id,
      name: one.name,
      description: '',
      editor: nothing,
      transformation: async () => one,
    }))
  );
}

function nothing() {
  return null;
}

function setting(id) {
  const always = () => true;
  return {
    id, path: id, name: id, description: '', editor: nothing, override: nothing,
    shouldApply: always, getItemsCount: () => 0,
  };
}

/** Run the transformations of a panel and hand on what comes of them. */
export function arrange(panel, frames, then, failed) {
  const wanted = panel.transformations ?? [];
  transformDataFrame(wanted, frames).subscribe({ next: then, error: failed });
}

/** Return the frames with everything that fields are told by the panel. */
export function configure(panel, frames, theme) {
  return applyFieldOverrides({
    data: frames,
    fieldConfig: panel.fieldConfig,
    fieldConfigRegistry: registryOf(panel.type),
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
}

function registryOf(kind) {
  if (!registries.has(kind)) {
    const add = (builder) =>
      CUSTOM.forEach((id) =>
        builder.addCustomEditor({ ...setting(id), process: identityOverrideProcessor })
      );
    const plugin = new PanelPlugin(nothing).useFieldConfig({ useCustomConfig: add });
    registries.set(kind, plugin.fieldConfigRegistry);
  }
  return registries.get(kind);
}

"""Values that are nan or infinite: in the tensors that this rank has, and as they appear.

    values          a tensor -> its extremes, counts and figures, computed where it is
    nan_answers     which tensors of models and optimizers have some now
    armed_hooks     hooks of torch until the first one appears
    arming          sets and removes them on request; the rank stops at what they find
    findings        what was found: the module, its tensors, and where the value comes from
    loss_scales     gradients that overflow under a loss scaler are expected

torch is used where the program has loaded it, and never imported.
"""

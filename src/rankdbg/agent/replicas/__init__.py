"""The tensors of this rank that other ranks must have too: parameters, buffers, gradients, the state
of optimizers, and random generators.

    found_tensors   models and optimizers of the program -> their tensors, by name
    gradients_now   gradients, read while no backward pass stores any
    model_names     what several models are called in the program
    tensor_hashes   a tensor -> a hash of its bits, computed where the tensor is
    tensor_blocks   a tensor -> hashes of its blocks, and the values of some
    kept_hashes     hashes at every N-th step, kept in memory
    module_calls    modules of one step, forward and backward: hashes of what goes in and comes out
    autograd_nodes  the backward passes of operators
    operator_calls  operators of one module, and their repetition
    traced_tensors  tensors of a call, and their hashes
    machines        on what they were computed
    replica_answers what is asked of these, at a step or now
    step_work       work that the program's own thread does between two steps

torch is used where the program has loaded it, and never imported.
"""
